"""What :mod:`spikepool.explorer.dash_wire` takes for granted about Dash, held against Dash itself."""

import json
from urllib.parse import urlsplit

import pytest
from browser_page import SMALL, agree, visit

from spikepool.explorer.dash_wire import CALLBACK_PATH, PARTS, check_body, output_names


def described(application):
    """Dash's own description of the callbacks that the server runs, as served to its page."""
    everything = application.client.get("/_dash-dependencies").get_json()
    return [item for item in everything if not item["clientside_function"]]


def test_callbacks_are_posted_to_the_path_that_is_checked(application):
    rules = [rule for rule in application.app.server.url_map.iter_rules() if rule.rule == CALLBACK_PATH]
    assert len(rules) == 1
    assert "POST" in rules[0].methods


def test_the_table_of_callbacks_is_what_dash_tells_its_page(application):
    table = application.app.callback_map
    told = described(application)
    assert {item["output"] for item in told} == {name for name, entry in table.items() if "callback" in entry}
    assert len(told) >= 4
    for item in told:
        entry = table[item["output"]]
        for part in ("inputs", "state"):
            pairs = [(given["id"], given["property"]) for given in item[part]]
            assert [(want["id"], want["property"]) for want in entry[part]] == pairs


def test_a_request_built_from_the_description_is_accepted_and_answered(application):
    for item in described(application):
        names = [
            dict(zip(("id", "property"), name.rsplit(".", 1), strict=True)) for name in output_names(item["output"])
        ]
        body = {
            "output": item["output"],
            "outputs": names if item["output"].startswith("..") else names[0],
            "inputs": [{"id": i["id"], "property": i["property"], "value": None} for i in item["inputs"]],
            "state": [{"id": i["id"], "property": i["property"], "value": None} for i in item["state"]],
            "changedPropIds": [f"{item['inputs'][0]['id']}.{item['inputs'][0]['property']}"],
        }
        assert check_body(body, application.app.callback_map) is None
        assert application.client.post(CALLBACK_PATH, json=body).status_code in (200, 204)


@pytest.mark.browser
def test_the_page_sends_what_is_expected_of_it(tab):
    bodies = []

    def note(request):
        if urlsplit(request.url).path == CALLBACK_PATH:
            bodies.append(json.loads(request.post_data))

    tab.page.on("request", note)
    visit(tab, SMALL)
    tab.page.fill("#mu", "1.25")
    agree(tab.page, mu=1.25)
    tab.page.remove_listener("request", note)
    table = tab.site.app.callback_map
    assert {body["output"] for body in bodies} >= {
        name for name in table if "spectrum.figure" in name or "link-pr" in name
    }
    for body in bodies:
        assert set(body) <= PARTS
        assert set(body) >= {"output", "outputs", "inputs", "changedPropIds"}
        assert check_body(body, table) is None
