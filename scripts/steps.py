"""A C program whose run time is the number of its steps."""
import os
import subprocess
import sys

# About 50 ms.
STEPS = 40_000_000

# Steps that depend on each other, so that the time is the number of steps.
SOURCE = """
int main(void) {
    unsigned long state = 7;
    for (long step = 0; step < STEPS; step++) state = state * 6364136223846793005ul + 1442695040888963407ul;
    return state == 42;
}
"""


def written(path, data):
    """Writes a file that is missing or incomplete."""
    if not os.path.exists(path) or os.path.getsize(path) != len(data):
        with open(path, "wb") as file:
            file.write(data)


def build(folder, name, steps):
    written(f"{folder}/steps.c", SOURCE.encode())
    command = ["cc", "-O1", "-static", f"-DSTEPS={steps}", "-o", f"{folder}/{name}", f"{folder}/steps.c"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return f"{folder}/{name}"
