"""Run by the judges' Python: warcio records what http.client fetches. Arguments: the file, then URLs."""

import sys

from warcio.capture_http import capture_http  # before http.client, as it says

import http.client  # isort: skip
from urllib.parse import urlsplit

target, *urls = sys.argv[1:]
with capture_http(target):
    for url in urls:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc)
        connection.request("GET", parts.path + (f"?{parts.query}" if parts.query else ""))
        connection.getresponse().read()
        connection.close()
