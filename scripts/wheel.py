"""Writes a wheel that carries the program as a script: `wheel.py PROGRAM VERSION FOLDER`. The same input gives the same bytes.

Format: the binary distribution format of the Python Packaging Authority (a zip with a RECORD of SHA-256 sums).
"""

import base64
import hashlib
import os
import sys
import time
import zipfile


def main(program, version, folder):
    # A static program runs on any Linux of this architecture: the oldest tag says so.
    tag = "py3-none-manylinux1_x86_64.manylinux_2_5_x86_64"
    info = f"baremark-{version}.dist-info"
    with open(program, "rb") as file:
        binary = file.read()
    metadata = (
        f"Metadata-Version: 2.1\nName: baremark\nVersion: {version}\n"
        "Summary: Performance laboratory for virtualized infrastructure\nLicense: Apache-2.0 OR MIT\n"
    )
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in tag.split("-", 2)[2].split("."))
    wheel = f"Wheel-Version: 1.0\nGenerator: baremark\nRoot-Is-Purelib: false\n{tags}"
    files = [
        (f"baremark-{version}.data/scripts/baremark", binary, 0o755),
        (f"{info}/METADATA", metadata.encode(), 0o644),
        (f"{info}/WHEEL", wheel.encode(), 0o644),
    ]
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data, _ in files)
    files.append((f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode(), 0o644))
    date = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]
    with zipfile.ZipFile(os.path.join(folder, f"baremark-{version}-{tag}.whl"), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr = (0o100000 | mode) << 16
            entry.create_system = 3
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=9)


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main(*sys.argv[1:])
