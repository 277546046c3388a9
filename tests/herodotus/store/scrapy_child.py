"""Run by the judges' Python: a Scrapy spider that writes a WARC with warcio. Arguments: the file, then URLs."""

import sys
from collections.abc import AsyncIterator
from io import BytesIO

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.http import Request, Response
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

target, *urls = sys.argv[1:]


class Archivist(scrapy.Spider):
    name = "archivist"

    async def start(self) -> AsyncIterator[Request]:
        for url in urls:
            yield Request(url, dont_filter=True)

    def parse(self, response: Response) -> None:
        headers = [
            (name.decode(), value.decode()) for name, values in response.headers.items() for value in values
        ]
        head = StatusAndHeaders(f"{response.status} OK", headers, protocol="HTTP/1.1")
        record = writer.create_warc_record(
            response.url, "response", payload=BytesIO(response.body), http_headers=head
        )
        writer.write_record(record)


with open(target, "wb") as out:  # noqa: PTH123 - this program is run without ours
    writer = WARCWriter(out, gzip=True)
    process = CrawlerProcess(
        {
            "HTTPERROR_ALLOW_ALL": True,
            "REDIRECT_ENABLED": False,
            "COMPRESSION_ENABLED": False,
            "RETRY_ENABLED": False,
            "LOG_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    process.crawl(Archivist)
    process.start()
