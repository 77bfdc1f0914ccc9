# SPDX-License-Identifier: Apache-2.0
"""Guides are programs: their pieces run one after the other, and print what the guide says.

Pieces of Python run in one session, or are files if their first line names them: `# train.py`. Pieces
of sh are scripts. Text after a piece is what it prints, with ... for what may be anything. Where a
guide says "`train.py` of [KERAS.md](KERAS.md)", it gets that file of the other guide. What readers
need not see, such as how a disk gets full, is a piece in an HTML comment.
"""

from __future__ import annotations

import dataclasses
import doctest
import json
import re

from tests.support import processes

_PIECE = re.compile(r"^```(.*?)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# ([\w/]+\.py)\n")
_BORROWED = re.compile(r"`([\w/]+\.py)` of\s+\[(\w+\.md)\]")
_LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_SESSION = """
import contextlib, io, json, os, subprocess, sys
source, folder = sys.argv[1:]
pieces = json.load(open(source))
os.chdir(folder)
sys.path.insert(0, folder)
# Where `adaptcp` and `python` of this environment are.
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
os.environ["COLUMNS"] = "80"
session = {"__name__": "session"}
printed = []
for piece in pieces:
    print("at", piece["place"], file=sys.stderr, flush=True)
    if piece["language"] == "sh":
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", piece["code"]], capture_output=True, text=True
        )
        print(done.stdout + done.stderr, file=sys.stderr, flush=True)
        done.check_returncode()
        # TensorFlow and TFRA say more there than is of interest.
        said = [line for line in done.stderr.splitlines() if line.startswith("adaptcp ")]
        printed.append("\\n".join([done.stdout, *said]))
    elif piece["file"]:
        with open(piece["file"], "w") as file:
            file.write(piece["code"])
        printed.append("")
    else:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(piece["code"], piece["place"], "exec"), session)
        printed.append(output.getvalue())
print(json.dumps(printed))
"""


@dataclasses.dataclass(frozen=True)
class Piece:
    """A piece of a guide: where it is, what it is, the file it goes to, what it must print."""

    place: str
    language: str
    code: str
    file: str | None
    prints: str | None


def pieces(guide):
    """The pieces of a guide, a path, in order; files of other guides first."""
    text = guide.read_text()
    found = []
    for file, other in _BORROWED.findall(text):
        found += [piece for piece in pieces(guide.parent / other) if piece.file == file]
        assert found and found[-1].file == file, f"{other} has no {file}"
    for match in _PIECE.finditer(text):
        language, code = match.groups()
        place = f"{guide.name}:{text[: match.start()].count(chr(10)) + 1}"
        if language == "text":
            assert found and found[-1].prints is None, f"{place}: text follows no piece"
            found[-1] = dataclasses.replace(found[-1], prints=code)
            continue
        assert language in ("python", "sh"), f"{place}: {language!r} would not be run"
        file = _FILE.match(code) if language == "python" else None
        found.append(Piece(place, language, code, file and file.group(1), None))
    return found


def run(guide, folder):
    """Runs a guide in an empty folder, and compares what it prints with what it says."""
    todo = pieces(guide)
    source = folder.with_suffix(".json")
    source.write_text(json.dumps([dataclasses.asdict(piece) for piece in todo]))
    output = processes.run(_SESSION, source, folder).stdout
    for piece, printed in zip(todo, json.loads(output.splitlines()[-1])):
        assert piece.prints is None or _is_like(piece.prints, printed), (
            f"{piece.place} prints\n{printed}\ninstead of\n{piece.prints}"
        )


def _is_like(wanted, printed):
    # The rules of tables are as long as sizes and times happen to be.
    wanted, printed = (re.sub("─+", "─", text) for text in (wanted, printed))
    return doctest.OutputChecker().check_output(wanted, printed, _LIKE)
