"""What do the made-up web's images look like? Small stripes that any browser draws, in tones that differ.

A whole GIF or JPEG comes first; every decoder skips the following bytes (the rest of the image's size). Only
the colours differ, so a picture costs next to nothing.
"""

from functools import lru_cache

WIDTH, HEIGHT = 96, 64
BLOCK = 8  # of a JPEG, in pixels
_STRIPES = 4
_CLEAR, _END = 4, 5
_PIXELS_BETWEEN_CLEARS = 2  # so that codes never grow beyond three bits


def gif(bits: int) -> bytes:
    """Of four colours, from 64 bits."""
    drawn = bits.to_bytes(8, "big")
    return _gif_head() + drawn + drawn[:4] + _gif_pixels()


def _gif_head() -> bytes:
    size = WIDTH.to_bytes(2, "little") + HEIGHT.to_bytes(2, "little")
    return b"GIF89a" + size + b"\x81\0\0"  # a table of 4 colours


@lru_cache(maxsize=1)
def _gif_pixels() -> bytes:
    place = b"\x2c" + bytes(4) + WIDTH.to_bytes(2, "little") + HEIGHT.to_bytes(2, "little") + b"\0"
    codes = []
    for pixel in range(WIDTH * HEIGHT):
        if pixel % _PIXELS_BETWEEN_CLEARS == 0:
            codes.append(_CLEAR)
        codes.append(pixel % WIDTH * _STRIPES // WIDTH)
    packed = sum(code << 3 * at for at, code in enumerate([*codes, _END]))
    data = packed.to_bytes((3 * (len(codes) + 1) + 7) // 8, "little")
    blocks = b"".join(
        bytes((len(data[at : at + 255]),)) + data[at : at + 255] for at in range(0, len(data), 255)
    )
    return place + b"\x02" + blocks + b"\0\x3b"


@lru_cache(maxsize=64)
def jpeg(tone: int) -> bytes:
    """Gray, baseline, its mean values only; `tone` is 0 to 63."""
    size = HEIGHT.to_bytes(2, "big") + WIDTH.to_bytes(2, "big")
    head = b"".join(
        (
            b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0",
            b"\xff\xdb\0\x43\0" + b"\x10" * 64,  # a step of a mean value is 2 of 256
            b"\xff\xc0\0\x0b\x08" + size + b"\x01\x01\x11\0",
            b"\xff\xc4\0\x15\0\x01\x01"
            + bytes(14)
            + b"\0\x06",  # "0": as before; "10": six bits of difference
            b"\xff\xc4\0\x14\x10\x01" + bytes(15) + b"\0",  # "0": no more of this block
            b"\xff\xda\0\x08\x01\x01\0\0\x3f\0",
        )
    )
    columns = WIDTH // BLOCK
    scan = ""
    for block in range(columns * HEIGHT // BLOCK):
        column = block % columns
        if block == 0:
            scan += f"10{tone:06b}0"
        elif column in (columns // 3, 2 * columns // 3):
            brighter = (column == columns // 3) == (tone < 32)  # away from the end of the scale that is near
            scan += f"10{32 if brighter else 31:06b}0"
        else:
            scan += "00"
    scan += "1" * (-len(scan) % 8)
    data = int(scan, 2).to_bytes(len(scan) // 8, "big").replace(b"\xff", b"\xff\0")
    return head + data + b"\xff\xd9"
