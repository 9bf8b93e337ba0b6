// One row: what it is, before and after training, how training went.
const runRow = document.getElementById("run-row");
const figuresOfRun = document.getElementById("run-figures");

function openRow(row) {
  runRow.value = row;
  drawRow();
  const section = document.getElementById("run");
  section.scrollIntoView({ block: "start" });
  runRow.focus({ preventScroll: true });
}

const startsOf = (row) => (row.starts ?? []).map((start) => ROWS[start].label).join(" or ");

function drawRow() {
  const number = Number(runRow.value), row = ROWS[number], extra = PANELS[number] ?? {};
  lines.forEach((line, index) => line.classList.toggle("chosen", index === number));
  facts(document.getElementById("run-facts"), [
    ["setup", row.setup],
    ["seeds", row.seeds.join(", ")],
    ["started from", startsOf(row)],
    ["training", row.cost ? row.cost.text + (row.cost.rows ? `, ${Math.round(row.cost.rows).toLocaleString("en")} rows seen` : "") : "none"],
    ["fewer rows", row.less?.join("; ")],
  ]);
  const commands = (row.commands ?? []).map((command) => make("code", { class: "command" }, command));
  if (commands.length) document.getElementById("run-facts").append(make("dt", {}, "again by"), make("dd", {}, make("details", {}, make("summary", {}, commands.length > 1 ? `${commands.length} commands` : "a command"), ...commands)));
  figuresOfRun.replaceChildren();
  if (row.cells) addScores(number);
  if (extra.sets) addSets(extra.sets);
  for (const kind of ["dev", "train", "weight"]) {
    const curves = (extra.curves ?? []).filter((curve) => kindOf(curve) === kind);
    if (curves.length) addCurves(curves, kind);
  }
}

/** Scores of every set, before training where the weights were measured, and after. */
function addScores(number) {
  const row = ROWS[number], base = startsOf(row);
  const sets = Object.entries(row.cells).map(([column, cell]) => ({ ...cell, column, name: COLUMNS[column].short, before: ROWS[cell.before]?.cells?.[column] }));
  sets.sort((a, b) => (base ? (b.gain ?? -Infinity) - (a.gain ?? -Infinity) : b.mean - a.mean));
  const draw = (colours, width) => {
    const names = shortNames(sets.map((set) => set.name), width);
    const placed = sets.map((set, index) => ({ ...set, name: names[index], signs: (set.trained ? "●" : "") + (set.leaky ? "†" : "") }));
    const both = placed.filter((set) => set.before);
    const colour = (set) => (set.gain < 0 ? colours.warm : colours.accent);
    return Plot.plot({
      ...look(colours, width), marginLeft: marginFor(names), marginRight: 58, marginTop: 10, marginBottom: 36, height: 60 + 26 * sets.length,
      x: { label: `${DATA.metric} × 100 →`, grid: true, nice: true, domain: [Math.min(0, d3.min(placed, (set) => Math.min(set.low ?? set.mean, set.before?.mean ?? 0))), d3.max(placed, (set) => Math.max(set.high ?? set.mean, set.before?.mean ?? 0, 10))] },
      y: { domain: names, label: null, tickSize: 0 },
      marks: [
        Plot.ruleY(placed.filter((set) => set.low !== undefined), { y: "name", x1: "low", x2: "high", stroke: colour, strokeWidth: 7, strokeOpacity: 0.25 }),
        Plot.link(both, { y: "name", x1: (set) => set.before.mean, x2: "mean", stroke: colour, strokeWidth: 2 }),
        Plot.dot(both, { y: "name", x: (set) => set.before.mean, r: 4, fill: colours.paper, stroke: colours.quiet, strokeWidth: 2 }),
        Plot.dot(placed, { y: "name", x: "mean", r: 5, fill: colour }),
        Plot.text(placed, { y: "name", frameAnchor: "right", textAnchor: "start", dx: 8, fill: colours.quiet, text: (set) => set.gained ?? set.text.split(" ")[0] }),
        Plot.tip(placed, Plot.pointerY({ y: "name", x: "mean", title: (set) => `${COLUMNS[set.column].name}${set.trained ? ", trained on it" : ""}${set.leaky ? ", leaky" : ""}\n${set.before ? `${set.before.text} → ` : ""}${set.text}${set.ends ? `\n95 % interval ${set.ends}` : ""}` })),
      ],
    });
  };
  addFigure(figuresOfRun, {
    title: base ? "Before and after training" : "Scores", name: "before-after", draw,
    caption: base ? `Hollow: ${base}. Filled: this row, with its 95 % interval; at the right the gain.` : "Each with its 95 % interval.",
    table: {
      head: ["set", "before", "after", "95 % interval", "gain", "marks"],
      rows: sets.map((set) => [COLUMNS[set.column].name, set.before?.text ?? "—", set.text, set.ends ?? "—",
        set.gained ?? "—", [set.trained && "trained on it", set.leaky && "leaky", set.below && "below the lexical baseline"].filter(Boolean).join(", ")]),
    },
  });
}

/** Single rows of one evaluation set at a time: how scores lie by label, and the worst pairs. */
function addSets(sets) {
  const select = make("select"), place = make("div", { class: "figures full" });
  const cells = ROWS[Number(runRow.value)].cells;
  fillSelect(select, sets.map((set, index) => [index, COLUMNS[set.column].name]), Math.max(0, sets.findIndex((set) => cells[set.column]?.trained)));
  const draw = () => {
    place.replaceChildren();
    addDistribution(place, sets[select.value]);
    if (sets[select.value].worst?.length) addWorst(place, sets[select.value]);
  };
  select.addEventListener("change", draw);
  figuresOfRun.append(make("div", { class: "controls full" }, make("label", {}, "Single rows of ", select)), place);
  draw();
}

function addDistribution(container, { column, seed, ends, counts, threshold }) {
  const names = Object.keys(counts), bins = counts[names[0]].length, step = (ends[1] - ends[0]) / bins;
  const totals = names.map((name) => d3.sum(counts[name]));
  const draw = (colours, width) => {
    const key = legend(names.map((name, index) => `${name} (${totals[index].toLocaleString("en")})`), colours, width);
    const marginLeft = 46, marginTop = 28 + key.height, side = threshold && threshold.value > (ends[0] + ends[1]) / 2 ? -1 : 1;
    const bars = names.flatMap((name, index) => counts[name].map((count, bin) => ({ name, index, x1: ends[0] + bin * step, x2: ends[0] + (bin + 1) * step, share: (100 * count) / totals[index] })));
    const colour = (bar) => colours.series[bar.index % colours.series.length];
    // A line along the tops: each bin at both of its edges.
    const outline = bars.flatMap((bar) => [{ ...bar, x: bar.x1 }, { ...bar, x: bar.x2 }]);
    return Plot.plot({
      ...look(colours, width), height: 290 + key.height, marginLeft, marginTop, marginBottom: 40,
      x: { label: "score →", nice: true, ticks: Math.max(3, width / 90) }, y: { label: "↑ % of the rows of a label", grid: true },
      marks: [
        Plot.rectY(bars, { x1: "x1", x2: "x2", y: "share", y1: 0, y2: "share", fill: colour, fillOpacity: 0.22 }),
        Plot.line(outline, { x: "x", y: "share", z: "name", stroke: colour, strokeWidth: 1.6 }),
        Plot.ruleY([0], { stroke: colours.quiet }),
        threshold ? Plot.ruleX([threshold.value], { stroke: colours.ink, strokeWidth: 1.5, strokeDasharray: "5 3" }) : null,
        threshold ? Plot.text([threshold.value], { x: (value) => value, frameAnchor: "top", dy: 4, dx: 6 * side, textAnchor: side > 0 ? "start" : "end", text: () => `threshold ${threshold.value.toFixed(3)}`, fill: colours.ink, stroke: colours.paper, strokeWidth: 3 }) : null,
        ...key.marks(marginLeft, marginTop),
      ],
    });
  };
  const quality = threshold ? [["accuracy", "accuracy"], ["precision", "precision"], ["recall", "recall"], ["f1", "F1"]].filter(([key]) => threshold[key] !== undefined).map(([key, name]) => `${name} ${fixed(threshold[key])}`).join(", ") : "";
  addFigure(container, {
    title: `Scores by label, ${COLUMNS[column].name}`, name: "scores-by-label", draw,
    caption: [`Seed ${seed}. Each label by itself, so that a rare one is seen.`, threshold && `At the threshold, judged on ${threshold.on}: ${quality}.`].filter(Boolean).join(" "),
    table: { head: ["score from", "to", ...names], rows: d3.range(bins).map((bin) => [(ends[0] + bin * step).toFixed(3), (ends[0] + (bin + 1) * step).toFixed(3), ...names.map((name) => String(counts[name][bin]))]) },
  });
}

function addWorst(container, { worst, column, threshold }) {
  const hasGold = worst.some((pair) => pair.gold !== undefined);
  const items = worst.map((pair) => make("li", {}, ...pair.texts.map((text) => words("p", text)),
    make("p", { class: "note" }, `score ${pair.score.toFixed(3)}${pair.gold === undefined ? "" : ` · label ${pair.gold}`}`)));
  container.append(make("figure", {}, make("h3", {}, `Worst pairs, ${COLUMNS[column].name}`), make("ol", { class: "worst" }, ...items),
    make("figcaption", {}, threshold ? "Wrong at the threshold, those furthest beyond it first." : hasGold ? "Furthest from their label: by the place of the score among all rows against that of the label." : "The best other answer is furthest above the right one.")));
}

const kindOf = (curve) => (curve.of.endsWith("/weight") ? "weight" : curve.of.split("/")[0]);

function addCurves(curves, kind) {
  const isDev = kind === "dev", isWeight = kind === "weight";
  const seeds = new Set(curves.map((curve) => curve.seed)).size;
  const bySet = (isDev || isWeight) && new Set(curves.map((curve) => curve.of)).size > 1;
  const nameOf = (curve) => (bySet ? curve.of.split("/")[1] : `seed ${curve.seed}`);
  const series = [...new Set(curves.map(nameOf))];
  const draw = (colours, width) => {
    const names = legend(series, colours, width), marginLeft = 46, marginTop = 28 + names.height;
    const points = curves.flatMap((curve, line) => curve.points.map(([step, value]) => ({ step, value, line, name: nameOf(curve), seed: curve.seed })));
    const colour = (point) => colours.series[series.indexOf(point.name) % colours.series.length];
    return Plot.plot({
      ...look(colours, width), height: 290 + names.height, marginLeft, marginTop, marginBottom: 40, grid: true,
      x: { label: "step →", ticks: Math.max(3, width / 110), tickFormat: "~s" }, y: { label: isDev ? `↑ ${DATA.metric} × 100, dev` : isWeight ? "↑ weight of the loss" : "↑ loss", nice: true },
      marks: [
        Plot.line(points, { x: "step", y: "value", z: "line", stroke: colour, strokeWidth: isDev ? 2 : 1.3 }),
        isDev ? Plot.dot(points, { x: "step", y: "value", r: 2.5, fill: colour }) : null,
        Plot.tip(points, Plot.pointer({ x: "step", y: "value", title: (point) => `${point.name}${bySet && seeds > 1 ? `, seed ${point.seed}` : ""}\nstep ${point.step}: ${isDev ? fixed(point.value) : point.value}` })),
        ...names.marks(marginLeft, marginTop),
      ],
    });
  };
  addFigure(figuresOfRun, {
    title: isDev ? "Dev scores while training" : isWeight ? "Weights of the sets while training" : "Loss while training", name: `curves-${kind}`, draw,
    caption: isDev ? (bySet && seeds > 1 ? "One line for each set and seed." : bySet ? "" : COLUMNS.length > 1 ? curves[0].of.split("/")[1] : "") : isWeight ? (seeds > 1 ? "One line for each set and seed." : "What multiplies the loss of each set.") : "Mean over ten logged batches.",
    table: { head: [bySet ? "set" : "run", "seed", "steps", "first", isWeight ? "lowest" : "best", "last"],
      rows: curves.map((curve) => { const values = curve.points.map(([, value]) => value); const text = (value) => (isDev ? fixed(value) : String(value));
        return [nameOf(curve), String(curve.seed), String(curve.points.at(-1)[0]), text(values[0]), text(isDev ? d3.max(values) : d3.min(values)), text(values.at(-1))]; }) },
  });
}

fillSelect(runRow, ROWS.map((row, index) => [index, row.label]), 0);
runRow.addEventListener("change", drawRow);
// Charts come after the matrix is on the screen.
function drawCharts() {
  const shown = ROWS.findIndex((row, index) => row.kind === "trained" && PANELS[index]);
  runRow.value = Math.max(0, shown);  // trained rows come first
  drawRow();
  if (hasCosts) drawCosts();
  if (DATA.sizes.curves.length) drawSizes();
  if (!document.getElementById("undecided").hidden) drawUndecided();
  performance.mark("charts");
}
requestAnimationFrame(() => setTimeout(drawCharts));
