// The explorer: places, taxa and what reviewers and a model say of them, chosen together. Its data stand in the page;
// Vega draws the two charts, and lists, counts and controls are plain HTML. Names are only ever set as text.
(() => {
  "use strict";
  const REGIONS = ["realm", "province", "ecoregion"];
  const COLOURS = {
    agreement: "review agreement", recall: "model recall", points: "number of points", photo: "mean colour of the photos",
  };
  const ROWS = 15; // confusions that are listed
  const make = (tag, properties = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name in node) node[name] = value;
      else node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  };
  const number = (value) => value.toLocaleString("en");
  const many = (value, one, more = `${one}s`) => `${number(value)} ${value === 1 ? one : more}`;
  const percent = (share) => `${Math.round(100 * share)}%`;
  const wilson = (part, whole) => {
    const z = 1.959964, share = part / whole, wide = whole + z * z;
    const half = (z * Math.sqrt(whole * share * (1 - share) + (z * z) / 4)) / wide;
    const middle = (part + (z * z) / 2) / wide;
    return [Math.max(0, middle - half), Math.min(1, middle + half)];
  };
  const interval = (part, whole) => wilson(part, whole).map((bound) => Math.round(100 * bound)).join("–");
  const zero = () => ({ points: 0, photos: 0, reviewed: 0, correct: 0, tested: 0, right: 0, members: 0 });
  const FORMULA = /^(?:[=@\t\r\n＝＠＋－]|[+-](?!\d*\.?\d+(?:[eE][+-]?\d+)?%?$))/; // as reefcore/spreadsheets.py
  const inert = (text) => (FORMULA.test(text) ? `'${text}` : text);
  const quoted = (value) => `"${(typeof value === "string" ? inert(value) : String(value ?? "")).replace(/"/g, '""')}"`;

  // ------------------------------------------------------------------------------------------------ what is chosen
  function summarise(data, state) {
    const { sources, taxa, cells, answers } = data;
    const taxon = taxa.taxon.indexOf(state.taxon), words = state.source.toLowerCase();
    const exact = sources.source.some((name) => name === state.source);
    const named = (name) => (exact ? name === state.source : name.toLowerCase().includes(words));
    const here = sources.source.map(
      (name, i) => named(name) && REGIONS.every((field) => !state[field] || sources[field][i] === state[field]),
    );
    const total = zero(), bySource = sources.source.map(zero), byTaxon = taxa.taxon.map(zero), wrong = new Map();
    const add = (sums, k) => {
      for (const name of ["points", "photos", "reviewed", "correct", "tested", "right"]) sums[name] += cells[name][k];
      sums.members += cells.points[k] > 0;
    };
    cells.source.forEach((source, k) => {
      if (!here[source]) return;
      add(byTaxon[cells.taxon[k]], k); // of all taxa: the chart shows the chosen one among the others
      if (taxon >= 0 && cells.taxon[k] !== taxon) return;
      add(bySource[source], k);
      add(total, k);
    });
    answers.source.forEach((source, k) => {
      const [truth, answer] = [answers.taxon[k], answers.answer[k]];
      if (!here[source] || truth === answer || (taxon >= 0 && truth !== taxon && answer !== taxon)) return;
      const key = truth * taxa.taxon.length + answer;
      wrong.set(key, (wrong.get(key) || 0) + answers.points[k]);
    });
    const chosen = here.map((yes, i) => yes && (taxon < 0 || bySource[i].points > 0 || bySource[i].tested > 0));
    if (taxon < 0) bySource.forEach((sums, i) => { sums.photos = sources.photos[i]; });
    total.photos = bySource.reduce((sum, sums, i) => sum + (chosen[i] ? sums.photos : 0), 0);
    const shown = byTaxon.map((sums, i) => (taxon < 0 ? sums.points > 0 || sums.tested > 0 : i === taxon && chosen.includes(true)));
    const confusions = [...wrong].map(([key, points]) => {
      const truth = Math.floor(key / taxa.taxon.length);
      return { truth, answer: key % taxa.taxon.length, points, of: byTaxon[truth].tested };
    });
    confusions.sort((a, b) => b.points - a.points || a.truth - b.truth || a.answer - b.answer);
    return { taxon, here, chosen, shown, total, bySource, byTaxon, confusions };
  }

  // ------------------------------------------------------------------------------------------------------- tables
  const share = (part, whole, nothing) =>
    whole ? { value: part / whole, text: percent(part / whole), note: `${interval(part, whole)} of ${number(whole)}` }
      : { value: null, text: nothing };
  const count = (value) => ({ value, text: number(value) });

  const words = ["source", "ecoregion", "taxon", "family", "taken for"];
  function list(name, columns, choose) {
    const region = make("div", { className: "explorer-table", role: "region", tabIndex: 0 });
    region.setAttribute("aria-label", name);
    const body = make("tbody"), caption = make("caption"), head = make("tr");
    const sort = { column: -1, down: true };
    let rows = [], pressed = null;
    columns.forEach((column, i) => {
      const button = make("button", { type: "button", title: "Sort by this column" }, column);
      head.append(make("th", { scope: "col", className: words.includes(column) ? "" : "number" }, button));
      button.addEventListener("click", () => {
        sort.down = sort.column === i ? !sort.down : !words.includes(column);
        sort.column = i;
        draw();
      });
    });
    const cell = (content, i) => {
      const td = make(i ? "td" : "th", i ? { className: words.includes(columns[i]) ? "" : "number" } : { scope: "row" });
      if (content.colour) td.append(make("span", { className: "swatch", style: `background: ${content.colour}` }));
      if (content.choice) {
        const button = make("button", { type: "button" }, content.text);
        button.setAttribute("aria-pressed", String(content.text === pressed));
        button.addEventListener("click", () => choose(content.text));
        td.append(button);
      } else td.append(content.text);
      if (content.note) td.append(" ", make("small", {}, content.note));
      return td;
    };
    function draw() {
      const order = [...rows];
      if (sort.column >= 0) {
        const of = (row) => row[sort.column].value ?? row[sort.column].text;
        const none = (row) => row[sort.column].value === null;
        order.sort((a, b) => {
          if (none(a) || none(b)) return none(a) - none(b); // what is missing stays last
          const [x, y] = [of(a), of(b)];
          return (sort.down ? -1 : 1) * (typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
        });
      }
      [...head.cells].forEach((th, i) => {
        if (i === sort.column) th.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
        else th.removeAttribute("aria-sort");
      });
      const focused = body.contains(document.activeElement) ? document.activeElement.textContent : null;
      body.replaceChildren(...order.map((row) => make("tr", {}, ...row.map(cell))));
      if (focused !== null) {
        const again = [...body.querySelectorAll("button")].find((button) => button.textContent === focused);
        (again || region).focus();
      }
    }
    region.append(make("table", {}, caption, make("thead", {}, head), body));
    const save = make("button", { type: "button", className: "save" }, "Download as CSV");
    save.addEventListener("click", () => {
      const lines = rows.map((row) => row.map((c) => quoted(c.value === undefined ? c.text : c.value)).join(","));
      const text = [columns.map(quoted).join(","), ...lines].join("\r\n");
      const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: `explorer-${name}.csv` });
      link.click();
      URL.revokeObjectURL(link.href);
    });
    const update = (next, text, selected) => {
      [rows, pressed, caption.textContent] = [next, selected, text];
      draw();
    };
    return { node: make("div", {}, region, save), update };
  }

  // ------------------------------------------------------------------------------------------------------- charts
  function look(app) {
    const style = getComputedStyle(app), ink = style.color;
    const axis = { labelColor: ink, titleColor: ink, tickColor: ink, domainColor: ink, gridColor: ink, gridOpacity: 0.15 };
    const legend = { labelColor: ink, titleColor: ink, orient: "top", titleFontWeight: "normal" };
    const config = { background: null, view: { stroke: null }, font: style.fontFamily, axis, legend, aria: false };
    const blue = document.documentElement.dataset.theme === "dark" ? "#56B4E9" : "#0072B2"; // as figures/style.py
    return { ink, blue, config: { ...config, axis: { ...axis, titleFontWeight: "normal" } } };
  }
  const SHARE = { type: "quantitative", scale: { domain: [0, 1], scheme: "viridis" }, legend: { format: ".0%", values: [0, 0.5, 1] } };

  function mapSpec(land, colour, width, height, view, { ink, config }) {
    const outline = { type: "MultiPolygon", coordinates: land.map((ring) => [ring]) };
    const fill = colour === "photo" ? { field: "photo", type: "nominal", scale: null }
      : colour === "points" ? { field: "points", type: "quantitative", scale: { type: "log", scheme: "viridis" }, legend: { format: ",", tickCount: 4 } }
        : { ...SHARE, field: colour };
    const base = { longitude: { field: "x", type: "quantitative" }, latitude: { field: "y", type: "quantitative" } };
    const size = { field: "area", type: "quantitative", scale: { type: "sqrt", range: [30, 400] }, legend: null };
    const mark = { type: "circle", stroke: ink, strokeWidth: 0.7, opacity: 0.9, tooltip: { expr: "datum.tip" }, cursor: "pointer" };
    return {
      width, height, config, padding: 2, view: { stroke: ink, strokeOpacity: 0.3 },
      params: Object.entries(view).map(([name, value]) => ({ name, value })),
      projection: { type: "identity", reflectY: true, scale: { expr: "k" }, translate: { expr: "[dx, dy]" } },
      layer: [
        { data: { values: [{ type: "Feature", geometry: outline }] }, mark: { type: "geoshape", fill: ink, fillOpacity: 0.16, clip: true } },
        { data: { name: "rest" }, mark: { ...mark, fill: null, opacity: 0.4, size: 30, clip: true }, encoding: base },
        {
          data: { name: "chosen" }, transform: [{ filter: "!datum.seen" }], mark: { ...mark, clip: true, fill: "#9e9e9e" },
          encoding: { ...base, size },
        },
        {
          data: { name: "chosen" }, transform: [{ filter: "datum.seen" }], mark: { ...mark, clip: true },
          encoding: { ...base, size, fill: { ...fill, title: COLOURS[colour] } },
        },
      ],
    };
  }

  function spreadSpec(width, height, { ink, config, blue }) {
    const side = "datum.agreement > 0.6 ? 'right' : 'left'";
    const x = { field: "agreement", type: "quantitative", title: "review agreement", scale: { domain: [0, 1] }, axis: { format: ".0%", tickCount: 5 } };
    const y = { field: "recall", type: "quantitative", title: "model recall", axis: { format: ".0%", tickCount: 5 } };
    const size = { field: "points", type: "quantitative", scale: { type: "sqrt", range: [25, 350] }, legend: null };
    const faded = { condition: { test: "datum.on", value: 0.85 }, value: 0.25 };
    return {
      width, height, config, data: { name: "taxa" },
      layer: [
        { mark: { type: "rule", stroke: ink }, encoding: { x: { ...x, field: "aLow" }, x2: { field: "aHigh" }, y, opacity: { condition: { test: "datum.on", value: 0.4 }, value: 0.1 } } },
        { mark: { type: "rule", stroke: ink }, encoding: { x, y: { ...y, field: "rLow" }, y2: { field: "rHigh" }, opacity: { condition: { test: "datum.on", value: 0.4 }, value: 0.1 } } },
        { mark: { type: "circle", fill: blue, stroke: ink, strokeWidth: 0.7, tooltip: { expr: "datum.tip" }, cursor: "pointer" }, encoding: { x, y, size, opacity: faded } },
        { transform: [{ filter: "datum.name !== ''" }], mark: { type: "text", align: { expr: side }, dx: { expr: "datum.agreement > 0.6 ? -8 : 8" }, dy: -7, fill: ink, fontSize: 11 }, encoding: { x, y, text: { field: "name" } } },
      ],
    };
  }

  function frame(sources, chosen, width, height) {
    const at = sources.x.map((x, i) => [x, sources.y[i], chosen[i]]).filter(([x, y]) => x !== null && y !== null);
    const inside = at.filter(([, , yes]) => yes);
    const use = inside.length && inside.length < at.length ? inside : at;
    const box = [0, 1].map((k) => [Math.min(...use.map((p) => p[k])), Math.max(...use.map((p) => p[k]))]);
    const [w, h] = box.map(([low, high]) => Math.max(high - low, 4000) * 1.15); // never nearer than a sea
    const k = Math.min(width / w, height / h);
    const [cx, cy] = box.map(([low, high]) => (low + high) / 2);
    return { k, dx: width / 2 - k * cx, dy: height / 2 + k * cy };
  }

  // --------------------------------------------------------------------------------------------------------- page
  function start(app) {
    const data = JSON.parse(app.querySelector("script").textContent);
    const { sources, taxa } = data;
    const reviewed = data.cells.reviewed.some(Boolean), run = Boolean(data.answers.points.length);
    const nobody = reviewed ? "not reviewed" : "no reviews here", untested = run ? "not tested" : "no model run here";
    const empty = { realm: "", province: "", ecoregion: "", taxon: "", source: "", colour: "agreement" };
    let state = { ...empty };

    const fields = {}, controls = make("form", { className: "explorer-controls" });
    controls.setAttribute("aria-label", "Choose places and taxa");
    const labelled = (name, text, control) => {
      fields[name] = control;
      controls.append(make("label", {}, make("span", {}, text), control));
      control.addEventListener(control.type === "search" ? "input" : "change", () => go({ [name]: control.value }));
    };
    for (const name of REGIONS) labelled(name, name[0].toUpperCase() + name.slice(1), make("select"));
    labelled("taxon", "Genus or taxon", make("select"));
    labelled("source", "Source (part of name)", make("input", { type: "search", autocomplete: "off" }));
    labelled("colour", "Colour of the map", make("select"));
    fields.colour.append(...Object.entries(COLOURS).map(([value, text]) => make("option", { value }, text)));
    const reset = make("button", { type: "button" }, "Reset");
    reset.addEventListener("click", () => go({ ...empty }));
    controls.append(reset);
    controls.addEventListener("submit", (event) => event.preventDefault());

    const status = make("p", { className: "explorer-status", role: "status" });
    const chart = (text) => {
      const drawing = make("div", { className: "explorer-chart", role: "img" }), said = make("figcaption", {}, text);
      return { drawing, said, node: make("figure", {}, drawing, said) };
    };
    const map = chart(""), spread = chart("");
    const lists = {
      sources: list("sources", ["source", "points", "colour (RGB)", "review agreement", "model recall", "photos", "taxa", "ecoregion"], (name) => toggle("source", name)),
      taxa: list("taxa", ["taxon", "points", "sources", "review agreement", "model recall", "family"], (name) => toggle("taxon", name)),
      confusions: list("confusions", ["taxon", "taken for", "points", "share of its tested points"], (name) => toggle("taxon", name)),
    };
    const part = (text, ...nodes) => make("section", {}, make("h3", {}, text), ...nodes);
    app.querySelector(".explorer-off").hidden = true;
    app.append(
      controls, status, make("div", { className: "explorer-charts" }, map.node, spread.node),
      part("Sources", lists.sources.node), part("Taxa", lists.taxa.node), part("Taken for", lists.confusions.node),
      make("p", { className: "explorer-notice" }, make("em", {}, data.notice), run ? ` Model: ${data.run}` : " No model was run."),
    );

    function options(name, values, texts, every) {
      const all = make("option", { value: "" }, every);
      fields[name].replaceChildren(all, ...values.map((value, i) => make("option", { value }, texts[i])));
      fields[name].value = state[name];
    }
    function choices(found) {
      REGIONS.forEach((name, level) => {
        const counts = new Map();
        sources[name].forEach((value, i) => {
          if (REGIONS.slice(0, level).every((above) => !state[above] || sources[above][i] === state[above])) counts.set(value, (counts.get(value) || 0) + 1);
        });
        const values = [...counts.keys()].sort((a, b) => a.localeCompare(b, "en"));
        options(name, values, values.map((value) => `${value} (${counts.get(value)})`), "all");
      });
      const order = taxa.taxon.map((_, i) => i).sort((a, b) => taxa.taxon[a].localeCompare(taxa.taxon[b], "en"));
      options("taxon", order.map((i) => taxa.taxon[i]), order.map((i) => `${taxa.taxon[i]} (${number(found.byTaxon[i].points)})`), "all");
      for (const name of ["source", "colour"]) if (fields[name].value !== state[name]) fields[name].value = state[name];
    }

    function tell(found) {
      const { total } = found, n = found.chosen.filter(Boolean).length;
      if (!n) {
        status.textContent = `No source has this: ${[...REGIONS, "taxon", "source"].filter((name) => state[name]).map((name) => state[name]).join(", ")}. Choose less, or reset.`;
        return;
      }
      const whose = found.taxon < 0 ? many(found.shown.filter(Boolean).length, "taxon", "taxa") : taxa.taxon[found.taxon];
      const judged = total.reviewed ? `review agreement ${percent(total.correct / total.reviewed)} of ${many(total.reviewed, "verdict")}` : nobody;
      const tested = total.tested ? `model recall ${percent(total.right / total.tested)} of ${many(total.tested, "test point")}` : untested;
      status.textContent = `${n} of ${many(sources.source.length, "source")}, ${many(total.photos, "photo")}, ${many(total.points, "point")} of ${whose}; ${judged}; ${tested}.`;
    }

    const rgb = (i) => (sources.red[i] === null ? null : [sources.red[i], sources.green[i], sources.blue[i]]);
    const swatch = (i) => (rgb(i) ? `rgb(${rgb(i).join(", ")})` : null);
    function rows(found) {
      const of = found.taxon < 0 ? "" : ` of ${taxa.taxon[found.taxon]}`;
      const pick = (flags) => flags.map((yes, i) => (yes ? i : -1)).filter((i) => i >= 0);
      const byPoints = (sums) => (a, b) => sums[b].points - sums[a].points || a - b;
      const chosen = pick(found.chosen).sort(byPoints(found.bySource));
      lists.sources.update(chosen.map((i) => {
        const sums = found.bySource[i];
        return [
          { text: sources.source[i], choice: true }, count(sums.points),
          rgb(i) ? { text: rgb(i).join(", "), colour: swatch(i) } : { text: "not measured", value: null },
          share(sums.correct, sums.reviewed, nobody), share(sums.right, sums.tested, untested), count(sums.photos), count(sums.members), { text: sources.ecoregion[i] },
        ];
      }), `${many(chosen.length, "source")}${of ? `, photos and points${of}` : ""}. Behind a share its 95 % interval and what it is of; the colour is the mean of the photos.`, state.source);
      const shown = pick(found.shown).sort(byPoints(found.byTaxon));
      lists.taxa.update(shown.map((i) => {
        const sums = found.byTaxon[i];
        return [
          { text: taxa.taxon[i], choice: true }, count(sums.points), count(sums.members),
          share(sums.correct, sums.reviewed, nobody), share(sums.right, sums.tested, untested), { text: taxa.family[i] || "–" },
        ];
      }), `${many(shown.length, "taxon", "taxa")} of the chosen places, the most points first.`, state.taxon);
      const wrong = found.confusions;
      lists.confusions.update(wrong.slice(0, ROWS).map(({ truth, answer, points, of: whole }) => [
        { text: taxa.taxon[truth], choice: true }, { text: taxa.taxon[answer] }, count(points), { value: points / whole, text: percent(points / whole), note: `of ${number(whole)}` },
      ]), wrong.length ? `The ${Math.min(ROWS, wrong.length)} most frequent of ${wrong.length} confusions${of && ` that have to do with ${taxa.taxon[found.taxon]}`}.`
        : run ? "No confusion: nothing here was tested, or every answer is right." : "No model was run here.", state.taxon);
    }

    // Charts are drawn anew where their form changes, and given other data where only the choice does.
    let views = null, drawn = "";
    async function charts(found) {
      const style = look(app), [width, side] = [map.drawing, spread.drawing].map((node) => Math.max(200, node.clientWidth - 12));
      const height = Math.max(150, Math.round(0.3 * width)), drawing = marks(found), view = frame(sources, found.chosen, width, height);
      const form = [style.ink, width, side, state.colour].join();
      if (form === drawn && views) {
        for (const [name, value] of Object.entries(view)) views[0].signal(name, value);
        views[0].data("rest", drawing.rest).data("chosen", drawing.chosen).run();
        views[1].data("taxa", drawing.taxa).run();
        return;
      }
      drawn = form;
      views = null;
      const settings = { actions: false, renderer: "svg", logLevel: 1 };
      const embedded = await Promise.all([
        [map, mapSpec(data.land, state.colour, width, height, view, style)],
        [spread, spreadSpec(Math.max(150, side - 45), Math.max(170, Math.round(0.45 * side)), style)],
      ].map(([one, spec]) => window.vegaEmbed(one.drawing, { ...spec, datasets: drawing }, settings)));
      if (form !== drawn) return; // another one has begun meanwhile
      views = embedded.map((one) => one.view);
      ["source", "taxon"].forEach((name, i) => views[i].addEventListener("click", (_, item) => toggle(name, item?.datum?.[name])));
      for (const one of [map, spread]) one.drawing.querySelector("svg").setAttribute("aria-hidden", "true");
      charts(summarise(data, state)); // what was chosen meanwhile
    }
    function marks(found) {
      const ratio = (part, whole) => (whole ? part / whole : null);
      const all = sources.source.map((source, i) => {
        const sums = found.bySource[i], recall = ratio(sums.right, sums.tested), agreement = ratio(sums.correct, sums.reviewed);
        const says = [source, sources.ecoregion[i], many(sums.points, "point"), agreement === null ? nobody : `agreement ${percent(agreement)}`, recall === null ? untested : `recall ${percent(recall)}`];
        const values = { points: sums.points || 1, agreement, recall, photo: swatch(i) }, seen = values[state.colour] !== null;
        return { source, x: sources.x[i], y: sources.y[i], area: sums.points, ...values, seen, tip: says.join(" · ") };
      });
      const [rest, chosen] = [false, true].map((flag) => all.filter((mark, i) => mark.x !== null && found.chosen[i] === flag));
      const known = found.byTaxon.map((sums, i) => ({ sums, i })).filter(({ sums }) => sums.reviewed && sums.tested);
      const most = spread.drawing.clientWidth < 400 ? 1 : 3; // names that have room beside each other
      const best = new Set([...known].sort((a, b) => b.sums.right / b.sums.tested - a.sums.right / a.sums.tested).slice(0, most).map(({ i }) => i));
      const points = known.map(({ sums, i }) => {
        const [agreement, recall] = [sums.correct / sums.reviewed, sums.right / sums.tested], taxon = taxa.taxon[i];
        const [[aLow, aHigh], [rLow, rHigh]] = [wilson(sums.correct, sums.reviewed), wilson(sums.right, sums.tested)];
        const on = found.taxon < 0 || found.taxon === i, name = (found.taxon < 0 ? best.has(i) : on) ? taxon : "";
        const tip = `${taxon} · ${many(sums.points, "point")} · agreement ${percent(agreement)} of ${sums.reviewed} · recall ${percent(recall)} of ${sums.tested}`;
        return { taxon, name, on, agreement, recall, aLow, aHigh, rLow, rHigh, points: sums.points, tip };
      });
      const n = found.chosen.filter(Boolean).length, lost = chosen.length < n ? `; ${many(n - chosen.length, "source")} without a position` : "";
      map.said.textContent = `Map: ${many(chosen.length, "chosen source")}${lost}. The area of a circle grows with its points; grey ones have no ${COLOURS[state.colour]}, empty ones are not chosen. A click on one chooses it.`;
      map.drawing.setAttribute("aria-label", `Map of ${many(chosen.length, "chosen source")}, coloured by ${COLOURS[state.colour]}. The list of sources says the same.`);
      spread.said.textContent = points.length ? `Chart: ${many(points.length, "taxon", "taxa")} of the chosen places, those that were reviewed and tested, with 95 % intervals. The area grows with points. A click on one chooses it.`
        : "Chart: no taxon of the chosen places was both reviewed and tested.";
      spread.drawing.setAttribute("aria-label", `Review agreement and model recall of ${many(points.length, "taxon", "taxa")}. The list of taxa says the same.`);
      return { rest, chosen, taxa: points };
    }

    // The choice stands in the address, so that it can be sent to somebody.
    const read = () => {
      const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
      const next = { ...empty };
      for (const name of Object.keys(empty)) if (given[name] !== undefined) next[name] = given[name];
      for (const name of REGIONS) if (!sources[name].includes(next[name])) next[name] = "";
      if (!taxa.taxon.includes(next.taxon)) next.taxon = "";
      if (!(next.colour in COLOURS)) next.colour = empty.colour;
      return next;
    };
    function go(change) {
      state = { ...state, ...change };
      REGIONS.forEach((name, level) => { // a narrower place that the wider one does not hold is let go
        const holds = sources[name].some((value, i) => value === state[name] && REGIONS.slice(0, level).every((above) => !state[above] || sources[above][i] === state[above]));
        if (state[name] && !holds) state[name] = "";
      });
      const kept = Object.entries(state).filter(([name, value]) => value !== empty[name]);
      const hash = kept.length ? `#${new URLSearchParams(kept)}` : `#${app.id}`;
      try {
        history[change.source === undefined || fields.source !== document.activeElement ? "pushState" : "replaceState"](null, "", hash);
      } catch {
        location.hash = hash; // some browsers keep pages of a folder from writing history
      }
      show();
    }
    const toggle = (name, value) => value && go({ [name]: value === state[name] ? "" : value });
    function show() {
      const found = summarise(data, state);
      choices(found);
      tell(found);
      rows(found);
      charts(found);
      performance.mark("explorer");
    }
    const again = () => { if (location.hash.includes("=") || location.hash === `#${app.id}`) { state = read(); show(); } };
    window.addEventListener("popstate", again);
    // With the explorer at work, the pictures and tables of everything fold away; on paper they stand there again.
    const rest = document.getElementById(app.dataset.all)?.closest("section"), head = rest?.querySelector("h1, h2, h3");
    if (head) {
      const fold = make("details", { className: "explorer-all" }, make("summary", {}, "Show all sources and taxa as pictures and tables"));
      while (head.nextSibling) fold.append(head.nextSibling);
      rest.append(fold);
      window.addEventListener("beforeprint", () => { fold.open = true; });
      if (fold.querySelector(":target")) fold.open = true;
    }
    let timer;
    const redraw = () => { clearTimeout(timer); timer = setTimeout(() => charts(summarise(data, state)), 100); };
    window.addEventListener("resize", redraw);
    new MutationObserver(redraw).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    state = read();
    show();
  }

  for (const app of document.querySelectorAll(".reef-explorer")) start(app);
})();
