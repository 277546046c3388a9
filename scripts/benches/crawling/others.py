"""How are other people's crawlers run? Installed for the bench alone, and told to do the same work.

Scrapy lives in `.venv-bench`; wget and wrk are the system's; wget2 is unpacked beside Scrapy from the system's package
where there is one, and used from there. None of them is a dependency of ours, and each is optional.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = Path(".venv-bench")
SCRAPY = ("scrapy>=2.13,<3", "warcio>=1.7.5,<2")
WGET = ("-r", "-l", "inf", "-H", "-p", "--delete-after", "-U", "Herodotus-bench")


def front_pages(folder: Path) -> list[str]:
    urls = (folder / "urls").read_text().split()
    return [url for url in urls if url.count("/") == 3 and url.endswith("/")]


def scrapy(folder: Path, connections: int, pages_max: int) -> list[str] | None:
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    if subprocess.run([python, "-c", "import scrapy, warcio"], capture_output=True, check=False).returncode:
        install = [str(python), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *SCRAPY]
        if subprocess.run(install, check=False).returncode:
            return None
    spider = Path(__file__).with_name("scrapy_spider.py")
    return [str(python), str(spider), str(folder), str(connections), str(pages_max)]


# wget walks again from each address it is given, so it gets one, which leads to nearly all others.
def wget(folder: Path) -> list[str] | None:
    program = shutil.which("wget")
    if program is None:
        return None
    return [
        program,
        *WGET,
        "-nv",
        "--warc-file",
        str(folder / "wget"),
        "-P",
        str(folder),
        front_pages(folder)[0],
    ]


def wget2(folder: Path, connections: int) -> list[str] | None:
    """To files: this version of it writes no WARC."""
    program = shutil.which("wget2") or _unpacked_wget2()
    if program is None:
        return None
    threads = f"--max-threads={min(connections, 56)}"
    return [program, *WGET, threads, "-P", str(folder), front_pages(folder)[0]]


def wget2_environment() -> dict[str, str]:
    folder = ENVIRONMENT / "wget2" / "usr" / "lib"
    libraries = [folder, *sorted(folder.glob("*-linux-gnu*"))]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, libraries))}


def _unpacked_wget2() -> str | None:
    program = ENVIRONMENT / "wget2" / "usr" / "bin" / "wget2"
    if not program.exists() and shutil.which("apt-get") and shutil.which("dpkg"):
        folder = ENVIRONMENT / "packages"
        folder.mkdir(parents=True, exist_ok=True)
        planned = subprocess.run(
            ["apt-get", "--simulate", "install", "wget2"], capture_output=True, text=True, check=False
        )
        names = [line.split()[1] for line in planned.stdout.splitlines() if line.startswith("Inst ")]
        if names:
            subprocess.run(["apt-get", "download", *names], cwd=folder, capture_output=True, check=False)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, str(ENVIRONMENT / "wget2")], check=False)
    return str(program) if program.exists() else None


def wrk(folder: Path, port: int, connections: int, seconds: int) -> list[str] | None:
    """All URLs in turn, over connections to one address: the most that one core can ask for."""
    program = shutil.which("wrk")
    if program is None:
        return None
    requests = []
    for url in (folder / "urls").read_text().split():
        host, _, path = url.removeprefix("http://").partition("/")
        requests.append(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
    lines = [f"  {json.dumps(request)}," for request in requests]
    script = folder / "wrk.lua"
    script.write_text(
        "\n".join(
            [
                "local requests = {",
                *lines,
                "}",
                "local at = 0",
                "request = function() at = at % #requests + 1; return requests[at] end",
            ]
        )
    )
    options = ["-t1", f"-c{connections}", f"-d{seconds}", "-s", str(script)]
    return [program, *options, f"http://127.0.0.1:{port}/"]
