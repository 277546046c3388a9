"""Does memory that was freed go back to the machine, whichever threads took it? In processes of their own."""

import json
import platform
import subprocess
import sys
from typing import Any

import pytest

from herodotus.operate.heap import ARENAS_MAX, keep_heap_small

IS_GLIBC = platform.libc_ver()[0] == "glibc"
THREADS = 12

_CHILD = """
import ctypes, json, sys, tempfile, threading

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.fopen.restype = ctypes.c_void_p
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.fclose.argtypes = [ctypes.c_void_p]

if sys.argv[1] == "small":
    from herodotus.operate.heap import keep_heap_small
    assert keep_heap_small()

def described():
    with tempfile.NamedTemporaryFile("r") as file:
        stream = libc.fopen(file.name.encode(), b"w")
        libc.malloc_info(0, stream)
        libc.fclose(stream)
        return file.read()

def mapped():
    return int(described().rpartition('type="mmap" count="')[2].partition('"')[0])

all_there = threading.Barrier(int(sys.argv[2]))

def busy():
    block = libc.malloc(4096)
    all_there.wait()  # while each has an arena
    libc.free(block)

threads = [threading.Thread(target=busy) for _ in range(all_there.parties)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.free(libc.malloc(4 << 20))  # from which malloc would learn to keep such
before = mapped()
blocks = [libc.malloc(1 << 20) for _ in range(8)]
print(json.dumps({"arenas": described().count("<heap nr="), "mapped": mapped() - before}))
"""


def _told(mode: str) -> Any:
    command = [sys.executable, "-c", _CHILD, mode, str(THREADS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env={})
    return json.loads(done.stdout)


@pytest.mark.skipif(not IS_GLIBC, reason="the rules are glibc's")
def test_threads_share_two_arenas_and_large_blocks_are_mapped_by_themselves() -> None:
    assert _told("small") == {"arenas": ARENAS_MAX, "mapped": 8}


@pytest.mark.skipif(not IS_GLIBC, reason="the rules are glibc's")
def test_without_the_rules_arenas_grow_in_number_and_large_blocks_stay_in_them() -> None:
    told = _told("plain")
    assert told["arenas"] > ARENAS_MAX
    assert told["mapped"] == 0


def test_what_an_operator_set_for_malloc_stands() -> None:
    assert not keep_heap_small({"GLIBC_TUNABLES": "glibc.malloc.arena_max=4"})


def test_collections_pass_over_what_was_imported() -> None:
    child = (
        "import gc, herodotus.operate.heap as heap, herodotus.core.status\n"
        "before = len(gc.get_objects())\n"
        "heap.keep_imports_out_of_collections()\n"
        "assert gc.get_freeze_count() > 0.9 * before\n"
        "assert len(gc.get_objects()) < 0.1 * before\n"
    )
    subprocess.run([sys.executable, "-c", child], check=True)
