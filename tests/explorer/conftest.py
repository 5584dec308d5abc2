import shutil
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

# for the helper modules beside the tests, which worker processes import by name too
sys.path.insert(0, str(Path(__file__).parent))

pytest.importorskip("dash", reason="the explorer needs dash")

from spikepool.explorer import Settings, create_app

BROWSER_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
UPLOAD_LIMIT = 400_000


@pytest.fixture(scope="module")
def application(tmp_path_factory):
    """An app with small limits, and its Flask test client."""
    folder = tmp_path_factory.mktemp("uploads")
    settings = Settings(temporary_folder=folder, max_upload_bytes=UPLOAD_LIMIT, max_trials=20)
    app = create_app(settings)
    services = app.server.extensions["spikepool"]
    yield SimpleNamespace(app=app, services=services, client=app.server.test_client(), folder=folder, settings=settings)
    services.close()


@pytest.fixture(scope="module")
def site(application):
    """The same app behind the production server, on a free port of loopback."""
    from waitress.server import create_server

    server = create_server(
        application.app.server, host="127.0.0.1", port=0, threads=8, max_request_body_size=UPLOAD_LIMIT + 2**20
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield SimpleNamespace(url=f"http://127.0.0.1:{server.effective_port}", **vars(application))
    server.close()


@pytest.fixture(scope="session")
def browser():
    """The system's Chromium, driven by Playwright."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        reason = "no Chromium on this machine: the browser tests of the explorer are skipped"
        print(reason)
        pytest.skip(reason)
    sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright")
    with sync_api.sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=path, args=BROWSER_ARGUMENTS)
        yield instance
        instance.close()


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
    yield SimpleNamespace(page=page, seen=seen, url=site.url, site=site)
    context.close()
