"""Text that is not UTF-8 lines is recognised, and answered with the command that converts it."""

from pathlib import Path

from juzhen.core.errors import UserError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The longer first: that of UTF-32 begins like that of UTF-16.
MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}

PACKED = (
    (b"\x1f\x8b", "a gzip file; give it a name that ends with .gz"),
    (b"\x28\xb5\x2f\xfd", "a zstd file; give it a name that ends with .zst"),
    (b"PK\3\4", "a zip archive or a table of Excel; unpack it, or save it as CSV in UTF-8"),
    (b"\xd0\xcf\x11\xe0", "a table of Excel; save it as CSV in UTF-8"),
    (b"PAR1", "a Parquet file; give it a name that ends with .parquet"),
    (b"ARROW1", "an Arrow file; give it a name that ends with .arrow"),
    (b"BZh", "a bzip2 file; unpack it"),
    (b"\xfd7zXZ", "an xz file; unpack it"),
)
"""How files begin that are no text, and what to do about them."""

LOOKED_AT = 2**16
"""Bytes of a file by which its encoding is told."""


def refuse_other_encodings(path: Path, start: bytes) -> None:
    """Raises UserError where a file is UTF-16 or UTF-32 by its mark or by its zero bytes.

    start  the file, or its first LOOKED_AT bytes at least
    """
    start = start[:LOOKED_AT]
    if packed := next((told for sign, told in PACKED if start.startswith(sign)), None):
        raise UserError(f"{path}: this is no text, but {packed}")
    found = next((name for mark, name in MARKS.items() if start.startswith(mark)), None) or _by_zeros(start)
    if found:
        raise UserError(
            f"{path}: this is {found.upper()}, and UTF-8 is expected; "
            f"convert it: {command(path, f'iconv -f {found} -t utf-8')}"
        )


def _by_zeros(start: bytes) -> str | None:
    """Without a mark: every line end has a zero byte beside it, always on the same side."""
    if start.count(0) < max(start.count(b"\n"), 1):
        return None
    for name in ("utf-16le", "utf-16be"):
        text = start.decode(name, "ignore")
        if "\0" not in text and any(sign in text for sign in "\t\n,"):
            return name
    return None


def undecodable_lines(raw: bytes, *, first_line: int = 1) -> dict[int, str]:
    """Line → the first byte of it that is not UTF-8."""
    found = {}
    for number, line in enumerate(raw.split(b"\n"), start=first_line):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            found[number] = (
                f"byte {error.start + 1} of the line is 0x{line[error.start]:02x}, which is not UTF-8; "
                "a GBK file is converted by `iconv -f gb18030 -t utf-8`"
            )
    return found


def refuse_lone_returns(path: Path, text: str) -> None:
    """Raises UserError where lines end with CR alone, so that the whole text would be one line."""
    if "\n" in text[:LOOKED_AT].rstrip():  # nearly always, and spares a copy of the text
        return
    text = text.rstrip()
    if "\r" in text and "\n" not in text:
        raise UserError(
            f"{path}: its lines end with CR alone, as on old Macs; convert it: "
            + command(path, r"tr '\r' '\n'")
        )


def command(path: Path, program: str) -> str:
    """A command line that makes `converted.…` of the file, unpacked before where it is packed."""
    unpack = {".gz": "gzip -dc", ".zst": "zstd -dc"}.get(path.suffix.lower())
    suffix = path.with_suffix("").suffix if unpack else path.suffix
    source = f"{unpack} {path.name} | {program}" if unpack else f"{program} < {path.name}"
    return f"{source} > converted{suffix}"
