"""Does memory that was freed go back to the machine, whichever threads took it? In processes of their own."""

import json
import platform
import subprocess
import sys
from typing import Any

import pytest

from herodotus.operate.heap import ARENAS_MAX, GIVEN_BACK_FROM_BYTES, Remains, keep_heap_small

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


_FREEING = """
import ctypes, re
from pathlib import Path

from herodotus.operate.heap import keep_heap_small, remains_of_malloc

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

def resident_mb():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024

keep_heap_small()
remains = remains_of_malloc()
blocks = [libc.malloc(100_000) for _ in range(1_000)]
for block in blocks:
    libc.memset(block, 1, 100_000)
for block in blocks[:-1]:
    libc.free(block)  # the last one is at the end of the heap and keeps the others there
before = resident_mb()
assert remains.look()
assert before - resident_mb() > 80, (before, resident_mb())
assert not remains.look()
"""


@pytest.mark.skipif(not IS_GLIBC, reason="malloc of glibc keeps it")
def test_what_was_freed_in_the_midst_of_the_heap_is_given_back() -> None:
    subprocess.run([sys.executable, "-c", _FREEING], check=True, timeout=60)


def test_it_is_given_back_when_there_is_more_of_it_than_after_the_last_time() -> None:
    free = 50 * GIVEN_BACK_FROM_BYTES
    trimmed: list[int] = []
    remains = Remains(lambda: free, lambda: trimmed.append(free))
    assert not remains.look()
    free += GIVEN_BACK_FROM_BYTES
    assert remains.look()
    assert not remains.look(), "it still counts as free"
    free -= 3 * GIVEN_BACK_FROM_BYTES  # somebody uses it
    assert not remains.look()
    free += 2 * GIVEN_BACK_FROM_BYTES  # and frees it
    assert remains.look()
    assert len(trimmed) == 2


def test_what_an_operator_set_for_malloc_stands() -> None:
    assert not keep_heap_small({"GLIBC_TUNABLES": "glibc.malloc.arena_max=4"})


def test_collections_pass_over_what_was_imported_also_while_it_comes_in() -> None:
    child = (
        "import gc, herodotus.operate.heap as heap\n"
        "before = gc.get_stats()[0]['collections']\n"
        "with heap.importing():\n"
        "    import herodotus.core.status\n"
        "    assert gc.get_stats()[0]['collections'] == before\n"
        "    there = len(gc.get_objects())\n"
        "assert gc.isenabled()\n"
        "assert gc.get_freeze_count() > 10_000\n"
        "assert len(gc.get_objects()) < 0.1 * there\n"
    )
    subprocess.run([sys.executable, "-c", child], check=True)
