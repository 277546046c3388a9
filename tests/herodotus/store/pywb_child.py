"""Run by the judges' Python, not by ours: a pywb on a port of its own choice, which it prints."""

from gevent.monkey import patch_all

patch_all()

import json  # noqa: E402 - pywb wants everything patched before it is loaded
import sys  # noqa: E402

from gevent.pywsgi import WSGIServer  # noqa: E402
from pywb.apps.frontendapp import FrontEndApp  # noqa: E402
from pywb.utils.geventserver import RequestURIWSGIHandler  # noqa: E402

app = FrontEndApp(custom_config=json.loads(sys.argv[1]))
server = WSGIServer(("127.0.0.1", 0), app, log=None, handler_class=RequestURIWSGIHandler)
server.start()
print("port", server.server_port, flush=True)  # noqa: T201 - this is how the parent hears of it
server.serve_forever()
