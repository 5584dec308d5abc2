"""The text of every control can be read: in each state, in light and dark, on a phone and on a desktop."""

import pytest
from browser_page import DEADLINE, agree

pytestmark = pytest.mark.browser

CONTROLS = "a, button, input, textarea, label, .dash-options-list-option"
STATES = {
    "at rest": [],
    "hovered": ["hover"],
    "focused": ["focus", "focus-visible", "focus-within"],
    "pressed": ["hover", "active", "focus", "focus-within"],
}
# Elements that show text of their own, with the contrast of that text against what lies behind it (WCAG 2).
CONTRASTS = """() => {
    const parse = (text) => {
        const n = text.match(/[\\d.]+/g).map(Number);
        const scale = text.startsWith("color(") ? 255 : 1;
        return [scale * n[0], scale * n[1], scale * n[2], n[3] ?? 1];
    };
    const over = (a, b) => [0, 1, 2].map((i) => a[3] * a[i] + (1 - a[3]) * b[i]).concat(1);
    const light = (c) => {
        const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        const [r, g, b] = c.slice(0, 3).map((v) => linear(v / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (e) => {
        const layers = [];
        for (let at = e; at; at = at.parentElement) layers.unshift(parse(getComputedStyle(at).backgroundColor));
        return layers.reduce((ground, layer) => over(layer, ground), [255, 255, 255, 1]);
    };
    const found = [];
    for (const e of document.querySelectorAll(".app *, body > header *, main *")) {
        const seen = e.checkVisibility({ opacityProperty: true, visibilityProperty: true });
        if (e.closest("svg, .js-plotly-plot, noscript") || !seen) continue;
        const typed = ["number", "textarea"].includes(e.type);
        const words = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
        const text = typed ? e.value : words;
        if (!text || e.tagName === "PROGRESS") continue;
        const style = getComputedStyle(e);
        let opacity = 1;
        for (let at = e; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
        const ground = behind(e);
        const ink = parse(style.color);
        const shown = over([...ink.slice(0, 3), ink[3] * opacity], ground);
        const pair = [light(shown), light(ground)].sort((a, b) => b - a);
        const size = parseFloat(style.fontSize);
        const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        const off = e.closest(":disabled, [aria-disabled=true]") !== null;
        const needed = off ? 2 : large ? 3 : 4.5;
        const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
        found.push([String(text).slice(0, 30), e.id || e.className || e.tagName, contrast, needed]);
    }
    return found;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", "/content"])
def test_every_text_has_contrast_in_each_state(browser, site, width, scheme, path):
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    try:
        page = context.new_page()
        page.set_default_timeout(DEADLINE * 1000)
        page.goto(site.url + path)
        if path == "/":
            agree(page)
        elif path == "/content":
            page.wait_for_selector("#content-page:not([hidden]) .headline:not(:empty)")
        tools = context.new_cdp_session(page)
        for domain in ("DOM", "CSS"):
            tools.send(f"{domain}.enable")
        root = tools.send("DOM.getDocument", {"depth": 0})["root"]["nodeId"]
        nodes = tools.send("DOM.querySelectorAll", {"nodeId": root, "selector": CONTROLS})["nodeIds"]
        assert len(nodes) >= 2
        for state, classes in STATES.items():
            for node in nodes:
                tools.send("CSS.forcePseudoState", {"nodeId": node, "forcedPseudoClasses": classes})
            shown = page.evaluate(CONTRASTS)
            assert len(shown) > (40 if path == "/" else 20)
            unreadable = [entry for entry in shown if entry[2] < entry[3]]
            assert not unreadable, state
    finally:
        context.close()


@pytest.mark.slow
def test_a_chosen_segment_keeps_its_label_under_the_pointer_and_the_focus(tab):
    """The same with a real pointer and a real focus, not with forced states."""
    page = tab.page
    chosen = page.locator("#w .dash-options-list-option.selected")
    for act in (chosen.hover, chosen.locator("input").focus):
        act()
        colours = chosen.evaluate("e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]")
        assert colours[0] != colours[1]
