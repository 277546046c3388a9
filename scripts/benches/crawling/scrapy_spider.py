"""What does Scrapy cost for the same crawl? Run by its own environment's Python, never by ours.

All links and images of every page, robots.txt obeyed, no delay, no autothrottle; each answer becomes a WARC
response record by warcio as shipped.
"""

import io
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter


class ArchiveSpider(scrapy.Spider):
    name = "archive"
    links = LinkExtractor(tags=("a", "area", "img"), attrs=("href", "src"), deny_extensions=[], unique=True)

    def __init__(self, urls: list[str], writer: WARCWriter, **more: Any) -> None:
        super().__init__(**more)
        self.start_urls = urls
        self.writer = writer
        self.fetched = 0

    def parse(self, response: Any) -> Any:
        self.fetched += 1
        fields = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, values in response.headers.items()
            for value in values
        ]
        head = StatusAndHeaders(f"{response.status} OK", fields, protocol="HTTP/1.1")
        record = self.writer.create_warc_record(
            response.url, "response", payload=io.BytesIO(response.body), http_headers=head
        )
        self.writer.write_record(record)
        if isinstance(response, scrapy.http.HtmlResponse):
            for link in self.links.extract_links(response):
                yield scrapy.Request(link.url)


def main() -> None:
    folder, connections, pages_max = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    urls = [url for url in (folder / "urls").read_text().split() if url.count("/") == 3 and url[-1] == "/"]
    settings = {
        "CONCURRENT_REQUESTS": connections,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": True,
        "COOKIES_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_LEVEL": "ERROR",
        "CLOSESPIDER_PAGECOUNT": pages_max,
        "USER_AGENT": "Herodotus-bench (Scrapy)",
    }
    process = CrawlerProcess(settings)
    with (folder / "scrapy.warc.gz").open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        crawler = process.create_crawler(ArchiveSpider)
        prelude, started = time.process_time(), time.perf_counter()
        process.crawl(crawler, urls=urls, writer=writer)
        process.start()
    told = {
        "fetched": crawler.spider.fetched,
        "wall_s": time.perf_counter() - started,
        "prelude_cpu_s": prelude,
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
