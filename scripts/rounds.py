"""Rounds of a soak, a line each in a file: those of one program and one kind of soak, and of no other build of it, so that a soak can be made
in pieces and a kill costs the round that it meets."""
import hashlib
import json
import os


class Rounds:
    def __init__(self, program, folder, of):
        """Reads the rounds in FOLDER/rounds.jsonl; `of` are the options that rounds must have in common."""
        with open(program, "rb") as file:
            self.of = [hashlib.sha256(file.read()).hexdigest(), of]
        self.path = os.path.join(folder, "rounds.jsonl")
        self.found, self.others = {}, 0
        text = ""
        if os.path.exists(self.path):
            with open(self.path) as file:
                text = file.read()
        # A kill in the middle of a write leaves a line without an end.
        complete = text[: text.rfind("\n") + 1]
        if complete != text:
            with open(self.path, "w") as file:
                file.write(complete)
        for line in complete.splitlines():
            of, kind, row = json.loads(line)
            if of == self.of:
                self.found.setdefault(kind, []).append(row)
            else:
                self.others += 1

    def count(self, kind):
        return len(self.found.get(kind, []))

    def add(self, kind, row):
        self.found.setdefault(kind, []).append(row)
        with open(self.path, "a") as file:
            file.write(json.dumps([self.of, kind, row]) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def title(self, kinds):
        """What is there of these kinds already; nothing where the file has no rounds."""
        had = ", ".join(f"{kind} {self.count(kind)}" for kind in kinds if self.count(kind))
        return f"{self.path} has {had or 'none'} of this program, {self.others} of others" if had or self.others else ""
