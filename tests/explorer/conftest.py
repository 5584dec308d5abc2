import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

# for the helper modules beside the tests, which worker processes import by name too
sys.path.insert(0, str(Path(__file__).parent))

pytest.importorskip("dash", reason="the explorer needs dash")

from browser_page import agree, run_until_closed

from spikepool.explorer import Limits, create_app


@pytest.fixture(scope="module")
def application():
    """An app with small limits, and its Flask test client."""
    limits = Limits(trials=20)
    app = create_app(limits)
    worker = app.server.extensions["spikepool"]
    yield SimpleNamespace(app=app, worker=worker, client=app.server.test_client(), limits=limits)
    worker.close()


@pytest.fixture(scope="module")
def site(application):
    """The same app behind the production server, on a free port of loopback."""
    from waitress.server import create_server

    server = create_server(application.app.server, host="127.0.0.1", port=0, threads=8)
    run_until_closed(server)
    yield SimpleNamespace(url=f"http://127.0.0.1:{server.effective_port}", **vars(application))
    server.close()


@pytest.fixture(scope="module")
def tab(browser, site):
    """One page for the whole module, with everything it asked for and complained about."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(60_000)
    seen = SimpleNamespace(requests=[], errors=[])
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("console", lambda message: message.type == "error" and seen.errors.append(message.text))
    page.goto(site.url)
    agree(page)  # every test can run alone: none meets a page that is still filling its fields
    yield SimpleNamespace(page=page, seen=seen, url=site.url, site=site)
    context.close()
