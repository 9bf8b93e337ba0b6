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

const startsOf = (row) => (row.starts ?? []).map((start) => ROWS[start].label).join(say` or `);

function drawRow() {
  const number = Number(runRow.value), row = ROWS[number], extra = PANELS[number] ?? {};
  lines.forEach((line, index) => line.classList.toggle("chosen", index === number));
  facts(document.getElementById("run-facts"), [
    [say`setup`, row.setup],
    [say`seed`, row.seeds.join(", ")],
    [say`started from`, startsOf(row)],
    [say`training`, row.cost ? trainingOf({ ...row.cost, rows: row.cost.rows && Math.round(row.cost.rows).toLocaleString("en") }) : say`none`],
    [say`fewer rows`, row.less?.map((phrase) => say(phrase)).join(say`; `)],
  ]);
  const commands = (row.commands ?? []).map((command) => make("code", { class: "command" }, command));
  if (commands.length) document.getElementById("run-facts").append(make("dt", {}, say`again by`), make("dd", {}, make("details", {}, make("summary", {}, commands.length > 1 ? say`${commands.length} commands` : say`a command`), ...commands)));
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
      x: { label: `${say(DATA.metric)} × 100 →`, grid: true, nice: true, domain: [Math.min(0, d3.min(placed, (set) => Math.min(set.low ?? set.mean, set.before?.mean ?? 0))), d3.max(placed, (set) => Math.max(set.high ?? set.mean, set.before?.mean ?? 0, 10))] },
      y: { domain: names, label: null, tickSize: 0 },
      marks: [
        Plot.ruleY(placed.filter((set) => set.low !== undefined), { y: "name", x1: "low", x2: "high", stroke: colour, strokeWidth: 7, strokeOpacity: 0.25 }),
        Plot.link(both, { y: "name", x1: (set) => set.before.mean, x2: "mean", stroke: colour, strokeWidth: 2 }),
        Plot.dot(both, { y: "name", x: (set) => set.before.mean, r: 4, fill: colours.paper, stroke: colours.quiet, strokeWidth: 2 }),
        Plot.dot(placed, { y: "name", x: "mean", r: 5, fill: colour }),
        Plot.text(placed, { y: "name", frameAnchor: "right", textAnchor: "start", dx: 8, fill: colours.quiet, text: (set) => set.gained ?? set.text.split(" ")[0] }),
        Plot.tip(placed, Plot.pointerY({ y: "name", x: "mean", title: (set) => `${[COLUMNS[set.column].name, set.trained && say`trained on it`, set.leaky && say`leaky`].filter(Boolean).join(say`, `)}\n${set.before ? `${set.before.text} → ` : ""}${set.text}${set.ends ? `\n${say`95 % interval ${span(set.ends)}`}` : ""}` })),
      ],
    });
  };
  addFigure(figuresOfRun, {
    title: base ? say`Before and after training` : say`Scores`, name: "before-after", draw,
    caption: base ? say`Hollow: ${base}. Filled: this row, with its 95 % interval; at the right the gain.` : say`Each with its 95 % interval.`,
    table: {
      head: [say`set`, say`before`, say`after`, say`95 % interval`, say`gain`, say`marks`],
      rows: sets.map((set) => [COLUMNS[set.column].name, set.before?.text ?? "—", set.text, set.ends ? span(set.ends) : "—",
        set.gained ?? "—", [set.trained && say`trained on it`, set.leaky && say`leaky`, set.below && say`below the lexical baseline`].filter(Boolean).join(say`, `)]),
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
    if (sets[select.value].slices) addSlices(place, sets[select.value]);
  };
  select.addEventListener("change", draw);
  figuresOfRun.append(make("div", { class: "controls full" }, make("label", {}, say`Single rows of `, select)), place);
  draw();
}

function addDistribution(container, { column, seed, ends, counts, threshold }) {
  const names = Object.keys(counts).map((name) => say(name)), bins = Object.values(counts)[0].length, step = (ends[1] - ends[0]) / bins;
  const perLabel = Object.values(counts), totals = perLabel.map((numbers) => d3.sum(numbers));
  const draw = (colours, width) => {
    const key = legend(names.map((name, index) => `${name} (${totals[index].toLocaleString("en")})`), colours, width);
    const marginLeft = 46, marginTop = 28 + key.height, side = threshold && threshold.value > (ends[0] + ends[1]) / 2 ? -1 : 1;
    const bars = names.flatMap((name, index) => perLabel[index].map((count, bin) => ({ name, index, x1: ends[0] + bin * step, x2: ends[0] + (bin + 1) * step, share: (100 * count) / totals[index] })));
    const colour = (bar) => colours.series[bar.index % colours.series.length];
    // A line along the tops: each bin at both of its edges.
    const outline = bars.flatMap((bar) => [{ ...bar, x: bar.x1 }, { ...bar, x: bar.x2 }]);
    return Plot.plot({
      ...look(colours, width), height: 290 + key.height, marginLeft, marginTop, marginBottom: 40,
      x: { label: say`score →`, nice: true, ticks: Math.max(3, width / 90) }, y: { label: say`↑ % of the rows of a label`, grid: true },
      marks: [
        Plot.rectY(bars, { x1: "x1", x2: "x2", y: "share", y1: 0, y2: "share", fill: colour, fillOpacity: 0.22 }),
        Plot.line(outline, { x: "x", y: "share", z: "name", stroke: colour, strokeWidth: 1.6 }),
        Plot.ruleY([0], { stroke: colours.quiet }),
        threshold ? Plot.ruleX([threshold.value], { stroke: colours.ink, strokeWidth: 1.5, strokeDasharray: "5 3" }) : null,
        threshold ? Plot.text([threshold.value], { x: (value) => value, frameAnchor: "top", dy: 4, dx: 6 * side, textAnchor: side > 0 ? "start" : "end", text: () => say`threshold ${threshold.value.toFixed(3)}`, fill: colours.ink, stroke: colours.paper, strokeWidth: 3 }) : null,
        ...key.marks(marginLeft, marginTop),
      ],
    });
  };
  const quality = threshold ? [["accuracy", say`accuracy`], ["precision", say`precision`], ["recall", say`recall`], ["f1", "F1"]].filter(([key]) => threshold[key] !== undefined).map(([key, name]) => `${name} ${fixed(threshold[key])}`).join(say`, `) : "";
  addFigure(container, {
    title: say`Scores by label, ${COLUMNS[column].name}`, name: "scores-by-label", draw,
    caption: [say`Seed ${seed}. Each label by itself, so that a rare one is seen.`, threshold && say`At the threshold, judged on ${say(threshold.on)}: ${quality}.`].filter(Boolean).join(" "),
    table: { head: [say`score from`, say`to`, ...names], rows: d3.range(bins).map((bin) => [(ends[0] + bin * step).toFixed(3), (ends[0] + (bin + 1) * step).toFixed(3), ...perLabel.map((numbers) => String(numbers[bin]))]) },
  });
}

function addWorst(container, { worst, column, threshold }) {
  const hasGold = worst.some((pair) => pair.gold !== undefined);
  const items = worst.map((pair) => make("li", {}, ...pair.texts.map((text) => words("p", text)),
    make("p", { class: "note" }, [say`score ${pair.score.toFixed(3)}`, pair.gold === undefined ? "" : say`label ${say(pair.gold)}`].filter(Boolean).join(" · "))));
  container.append(make("figure", {}, make("h3", {}, say`Worst pairs, ${COLUMNS[column].name}`), make("ol", { class: "worst" }, ...items),
    make("figcaption", {}, threshold ? say`Wrong at the threshold, those furthest beyond it first.` : hasGold ? say`Furthest from their label: by the place of the score among all rows against that of the label.` : say`The best other answer is furthest above the right one.`)));
}

/** Changes against the untrained weights on parts of a set. */
function addSlices(container, { slices, against, column }) {
  const head = [say`slice`, say`rows`, say`right before only`, say`right now only`, say`change, 95 % interval`];
  const line = ([name, ...numbers]) => make("tr", {}, make("th", { scope: "row" }, say(name)), ...numbers.map((number) => make("td", { class: "number" }, typeof number === "number" ? number.toLocaleString("en") : number || "—")));
  container.append(make("figure", {}, make("h3", {}, say`By slice, ${COLUMNS[column].name}`),
    make("div", { class: "scroll" }, make("table", { class: "plain" }, make("thead", {}, make("tr", {}, ...head.map((name, place) => make("th", { scope: "col", class: place ? "number" : "" }, name)))), make("tbody", {}, ...slices.map(line)))),
    make("figcaption", {}, say`Against ${against}, paired over the same rows: accuracy, or without decisions the main metric, × 100. Not corrected for the number of slices.`)));
}

const kindOf = (curve) => (curve.of.endsWith("/weight") ? "weight" : curve.of.split("/")[0]);

function addCurves(curves, kind) {
  const isDev = kind === "dev", isWeight = kind === "weight";
  const seeds = new Set(curves.map((curve) => curve.seed)).size;
  const bySet = (isDev || isWeight) && new Set(curves.map((curve) => curve.of)).size > 1;
  const nameOf = (curve) => (bySet ? curve.of.split("/")[1] : say`seed ${curve.seed}`);
  const series = [...new Set(curves.map(nameOf))];
  const draw = (colours, width) => {
    const names = legend(series, colours, width), marginLeft = 46, marginTop = 28 + names.height;
    const points = curves.flatMap((curve, line) => curve.points.map(([step, value]) => ({ step, value, line, name: nameOf(curve), seed: curve.seed })));
    const colour = (point) => colours.series[series.indexOf(point.name) % colours.series.length];
    return Plot.plot({
      ...look(colours, width), height: 290 + names.height, marginLeft, marginTop, marginBottom: 40, grid: true,
      x: { label: say`step →`, ticks: Math.max(3, width / 110), tickFormat: "~s" }, y: { label: isDev ? say`↑ ${say(DATA.metric)} × 100, dev` : isWeight ? say`↑ weight of the loss` : say`↑ loss`, nice: true },
      marks: [
        Plot.line(points, { x: "step", y: "value", z: "line", stroke: colour, strokeWidth: isDev ? 2 : 1.3 }),
        isDev ? Plot.dot(points, { x: "step", y: "value", r: 2.5, fill: colour }) : null,
        Plot.tip(points, Plot.pointer({ x: "step", y: "value", title: (point) => `${[point.name, bySet && seeds > 1 && say`seed ${point.seed}`].filter(Boolean).join(say`, `)}\n${say`step ${point.step}`}: ${isDev ? fixed(point.value) : point.value}` })),
        ...names.marks(marginLeft, marginTop),
      ],
    });
  };
  addFigure(figuresOfRun, {
    title: isDev ? say`Dev scores while training` : isWeight ? say`Weights of the sets while training` : say`Loss while training`, name: `curves-${kind}`, draw,
    caption: isDev ? (bySet && seeds > 1 ? say`One line for each set and seed.` : bySet ? "" : COLUMNS.length > 1 ? curves[0].of.split("/")[1] : "") : isWeight ? (seeds > 1 ? say`One line for each set and seed.` : say`What multiplies the loss of each set.`) : say`Mean over ten logged batches.`,
    table: { head: [bySet ? say`set` : say`run`, say`seed`, say`steps`, say`first`, isWeight ? say`lowest` : say`best`, say`last`],
      rows: curves.map((curve) => { const values = curve.points.map(([, value]) => value); const text = (value) => (isDev ? fixed(value) : String(value));
        return [nameOf(curve), String(curve.seed), String(curve.points.at(-1)[0]), text(values[0]), text(isDev ? d3.max(values) : d3.min(values)), text(values.at(-1))]; }) },
  });
}

fillSelect(runRow, ROWS.map((row, index) => [index, row.label]), 0);
runRow.addEventListener("change", drawRow);
// Charts come after the matrix is on the screen.
function drawFigures() {
  drawRow();
  if (hasCosts) drawCosts();
  if (DATA.sizes.curves.length) drawSizes();
  if (!document.getElementById("undecided").hidden) drawUndecided();
}
turns.push(drawFigures);
requestAnimationFrame(() => setTimeout(() => {
  const shown = ROWS.findIndex((row, index) => row.kind === "trained" && PANELS[index]);
  runRow.value = Math.max(0, shown);  // trained rows come first
  drawFigures();
  performance.mark("charts");
}));
