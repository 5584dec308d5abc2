/* Controls and address. The server is asked with the same query string that the address bar shows. */
(function () {
  "use strict";
  const dash = (window.dash_clientside = window.dash_clientside || {});
  const own = (dash.spikepool = dash.spikepool || {});
  const same = () => dash.no_update;
  const triggered = (id) =>
    dash.callback_context.triggered.some((item) => item.prop_id.startsWith(id + "."));

  /* ---- one number, two inputs ---- */
  function fromSlider(position, spec) {
    const p = Number(position);
    if (!spec.log) return Number(p.toFixed(spec.step < 1 ? 2 : 0));
    const exact = spec.low * Math.pow(spec.high / spec.low, p / spec.steps);
    const digit = Math.pow(10, Math.max(0, Math.floor(Math.log10(exact)) - 1));
    let value = Math.round(exact / digit) * digit;
    if (spec.even) value = Math.round(value / 2) * 2;
    return Math.min(spec.high, Math.max(spec.low, value));
  }

  function toSlider(value, spec) {
    if (!spec.log) return value;
    const inside = Math.min(spec.high, Math.max(spec.low, value));
    return Math.round((spec.steps * Math.log(inside / spec.low)) / Math.log(spec.high / spec.low));
  }

  const known = {}; // what Dash holds for each field and slider
  const specs = {}; // of the numbers that have a slider

  own.couple = function (value, position, spec) {
    const slider = spec.id + "-slider";
    specs[spec.id] = spec;
    known[spec.id] = value;
    known[slider] = Number(position);
    if (triggered(slider) && Number.isFinite(known[slider])) {
      known[spec.id] = fromSlider(position, spec);
      return [known[spec.id], same()];
    }
    // what is typed but not allowed arrives as NaN; the slider then stays where it is
    if (!Number.isFinite(value)) return [same(), same()];
    known[slider] = toSlider(value, spec);
    return [same(), known[slider]];
  };

  /* Dash ignores an input that returns to what was last entered in it, even if the value was changed by other means
     in between: type 12, slide to 13, type 12 again. Such an entry is passed on here. */
  function settle(field) {
    const value = Number(field.value);
    if (field.value !== "" && Number.isFinite(value) && value !== known[field.id]) {
      dash.set_props(field.id, { value: value });
    }
  }

  document.addEventListener("input", function (event) {
    const field = event.target;
    if (!(field.id in known)) return;
    if (field.type === "range") askAhead(field);
    // fields are read when the typing pauses
    setTimeout(settle, field.type === "range" ? 50 : 600, field);
  });

  /* ---- asking the server: one question at a time, the latest last ---- */
  let asked = null;
  let waiting = false;
  let next = null;
  let rescue = null;

  function ask(query) {
    if (waiting) {
      next = query;
      return;
    }
    if (query === asked) return;
    asked = query;
    waiting = true;
    clearTimeout(rescue);
    rescue = setTimeout(answered, 3000); // an answer that never comes must not freeze the page
    dash.set_props("query", { data: query });
  }

  function answered() {
    clearTimeout(rescue);
    waiting = false;
    const query = next;
    next = null;
    if (query !== null) ask(query);
  }
  own.answered = answered;

  let address = null;
  function showAddress(query) {
    clearTimeout(address);
    address = setTimeout(function () {
      if (window.location.pathname.endsWith("/")) window.history.replaceState(window.history.state, "", "?" + query);
    }, 200);
  }

  /* ---- the state ---- */
  const text = (id, value) => {
    if (typeof value === "string" || Number.isFinite(value)) return String(value);
    const field = document.getElementById(id);
    return field ? field.value : "";
  };
  const encode = (value) => encodeURIComponent(value).replace(/%2C/g, ",").replace(/%3B/g, ";");

  function matrix(pasted) {
    return (pasted || "")
      .replace(/\],?\s*\[/g, "\n")
      .replace(/[\[\]()]/g, " ")
      .split(/[\n;]+/)
      .map((row) => row.trim().replace(/,\s*$/, "").split(/[\s,]+/).filter(Boolean).join(","))
      .filter(Boolean)
      .join(";");
  }

  function fitted(values, T) {
    const shown = values && values.length ? values.slice() : own.shownWeights(T);
    while (shown.length < T) shown.push(shown[shown.length - 1]);
    return shown.slice(0, T);
  }

  /* The number or matrix that each correlation takes, in the order of the controls; as in state.py. */
  const PARAMETERS = { prefix: "L", markov: "rho", matrix: "R" };

  /* The query of a state, and what of it differs from the controls: the prefix and the custom weights. */
  function queryOf(state) {
    const rows = matrix(state.R);
    const number = (id) => text(id, state[id]);
    const parts = [["d", number("d")], ["V", number("V")], ["N", number("N")]];
    if (state.corr !== "matrix") parts.push(["T", number("T")]);
    parts.push(["corr", state.corr]);
    let prefix = state.L;
    if (state.corr === "prefix") {
      // the prefix cannot be longer than the sequence
      if (Number.isInteger(state.L) && Number.isInteger(state.T)) prefix = Math.min(state.L, state.T);
      parts.push(["L", text("L", prefix)]);
    } else if (state.corr === "matrix") {
      parts.push(["R", rows]);
    } else {
      parts.push([PARAMETERS[state.corr], number(PARAMETERS[state.corr])]);
    }
    parts.push(["mu", number("mu")], ["w", state.w]);
    let custom = state.custom;
    if (state.w === "custom") {
      const length = state.corr === "matrix" ? (rows ? rows.split(";").length : 0) : state.T;
      custom = fitted(state.custom, length || 1);
      parts.push(["custom", custom.join(",")]);
    }
    parts.push(["table", state.table], ["centered", state.centered], ["plane", state.plane]);
    return { query: parts.map(([name, value]) => name + "=" + encode(value)).join("&"), prefix, custom };
  }

  let latest = null; // the state last collected

  own.collect = function (mu, w, T, corr, L, rho, R, d, V, N, table, centered, plane, custom) {
    if (w === undefined || w === null) return [same(), same(), same(), same()];
    latest = { mu, w, T, corr, L, rho, R, d, V, N, table, centered, plane, custom };
    const found = queryOf(latest);
    if (found.prefix !== L) dash.set_props("L", { value: found.prefix });
    if (w === "custom" && (!custom || found.custom.length !== custom.length)) {
      dash.set_props("custom", { data: found.custom });
    }
    ask(found.query);
    showAddress(found.query);
    return [corr === "matrix", ...Object.values(PARAMETERS).map((name) => name !== PARAMETERS[corr])];
  };

  /* The question of a moved slider at once; Dash passes the move from slider to field to state in its own time, and
     then asks the same again, which is not repeated. */
  function askAhead(slider) {
    const id = slider.id.replace(/-slider$/, "");
    if (latest && id in specs) ask(queryOf({ ...latest, [id]: fromSlider(slider.value, specs[id]) }).query);
  }

  own.exports = function (query, job) {
    if (!query) return Array(5).fill(same());
    const tail = "?state=" + encodeURIComponent(query) + (job ? "&job=" + encodeURIComponent(job) : "");
    return ["png", "svg", "csv", "json", "py"].map((kind) => "/export/spikepool." + kind + tail);
  };

  own.copyLink = async function (clicks) {
    if (!clicks) return same();
    const link = window.location.origin + "/?" + asked;
    try {
      await navigator.clipboard.writeText(link);
      return "Link copied.";
    } catch (error) {
      return "Copy it from here: " + link;
    }
  };

  /* ---- pages: positions, and content ---- */
  own.showPage = function (pathname) {
    const content = pathname.endsWith("/content");
    for (const [id, shown] of [["explore-link", !content], ["content-link", content]]) {
      const link = document.getElementById(id);
      if (shown) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    return [content, !content];
  };

  /* The content page asks when its controls rest: its answers take up to seconds. */
  const CONTENT = ["beta", "nu", "L", "overlap", "mu", "kernel", "repeat", "V", "T", "d", "N", "relevance", "layers"];
  let rest = null;
  own.content = function (...values) {
    const state = Object.fromEntries(CONTENT.map((name, i) => [name, values[i]]));
    if (!state.kernel || !window.location.pathname.endsWith("/content")) return same();
    if (Number.isInteger(state.L) && Number.isInteger(state.T) && state.L > state.T) {
      dash.set_props("q-L", { value: state.T });
      return same();
    }
    clearTimeout(rest);
    rest = setTimeout(function () {
      const names = CONTENT.filter((name) => name !== "V" || state.repeat === "finite");
      const query = names.map((name) => name + "=" + encode(text("q-" + name, state[name]))).join("&");
      window.history.replaceState(window.history.state, "", "#" + query);
      dash.set_props("content-details", { children: "Computing…" });
      dash.set_props("content-query", { data: query });
    }, 250);
    return state.repeat !== "finite";
  };

  /* ---- theme ---- */
  const { key: KEY, dark, current: currentTheme } = window.spikepoolTheme;
  dark.addEventListener("change", function () {
    document.documentElement.dataset.theme = currentTheme();
    dash.set_props("theme", { data: currentTheme() });
  });

  own.theme = function (clicks) {
    let theme = currentTheme();
    if (clicks && triggered("theme-button")) {
      theme = theme === "dark" ? "light" : "dark";
      try {
        window.localStorage.setItem(KEY, theme);
      } catch (error) {
        /* a private window may refuse; the choice then lasts until the page is left */
      }
    }
    document.documentElement.dataset.theme = theme;
    return theme;
  };

  /* Escape closes a hint that was opened by focus */
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape" && document.activeElement.classList.contains("hint-button")) {
      document.activeElement.blur();
    }
  });
})();
