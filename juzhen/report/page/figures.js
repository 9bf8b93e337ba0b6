// Cost and quality.
const priced = ROWS.map((row, index) => ({ row, index })).filter(({ row }) => row.cost && row.cells);
const costKinds = () => [["seconds", say`training time`], ["rows", say`rows seen`]].filter(([key]) => priced.filter(({ row }) => row.cost[key]).length > 1);
const costBy = document.getElementById("cost-by"), qualityBy = document.getElementById("quality-by");

function timeText(seconds) {
  const text = (value, unit) => `${Number(value.toFixed(value < 10 ? 1 : 0))} ${unit}`;
  return seconds < 60 ? text(seconds, "s") : seconds < 3600 ? text(seconds / 60, "min") : text(seconds / 3600, "h");
}
const ROUND_TIMES = [1, 2, 5, 10, 20, 30, ...[1, 2, 5, 10, 20, 30].map((minutes) => 60 * minutes), ...[1, 2, 3, 6, 12, 24, 48, 96].map((hours) => 3600 * hours)];
/** Times that a reader knows, a few of them between the ends. */
function timeTicks(low, high, count) {
  const inside = ROUND_TIMES.filter((time) => time >= low && time <= high);
  return inside.length >= 2 ? inside.filter((_, index) => index % Math.ceil(inside.length / count) === 0) : count;
}
const costText = (value) => (costBy.value === "seconds" ? timeText(value) : d3.format(".2~s")(value));
const sharedColumns = d3.range(COLUMNS.length).filter((column) => !COLUMNS[column].measure && priced.every(({ row }) => row.cells[column]));

function quality(row) {
  if (qualityBy.value !== "mean") return row.cells?.[qualityBy.value]?.mean;
  return sharedColumns.every((column) => row.cells?.[column]) ? d3.mean(sharedColumns, (column) => row.cells[column].mean) : undefined;
}
function drawCosts() {
  const container = document.getElementById("costs-figures");
  const places = priced.map(({ row, index }) => ({ index, label: row.label, device: row.cost.device ?? say`unknown`, cost: row.cost[costBy.value], quality: quality(row) }))
    .filter((place) => place.cost && place.quality !== undefined).sort((a, b) => a.cost - b.cost || b.quality - a.quality);
  const front = [];
  for (const place of places) if (!front.length || place.quality > front.at(-1).quality) front.push(place);
  const devices = [...new Set(places.map((place) => place.device))];
  const baselines = ROWS.filter((row) => row.kind !== "trained").map((row) => ({ label: row.label, quality: quality(row) })).filter((row) => row.quality !== undefined);
  const ends = d3.extent(places, (place) => place.cost), isLog = ends[1] > 5 * ends[0];
  const axis = qualityBy.value === "mean" ? say`mean ${say(DATA.metric)} × 100 over ${sharedColumns.length} sets` : say`${measureOf(qualityBy.value)} × 100 on ${COLUMNS[qualityBy.value].name}`;
  const costName = costKinds().find(([key]) => key === costBy.value)[1];
  const draw = (colours, width) => {
    const names = legend(devices, colours, width);
    const marginLeft = 44, marginTop = 30 + names.height;
    return Plot.plot({
      ...look(colours, width), height: Math.min(460, Math.max(320, width * 0.55)) + names.height, marginLeft, marginTop, marginBottom: 44, marginRight: 20, grid: true,
      x: { type: isLog ? "log" : "linear", label: `${costName} →`, tickFormat: costText, ticks: costBy.value === "seconds" ? timeTicks(...ends, width / 90) : Math.max(3, width / 110) },
      y: { label: `↑ ${axis}`, nice: true },
      marks: [
        Plot.ruleY(baselines, { y: "quality", stroke: colours.quiet, strokeDasharray: "4 4" }),
        Plot.line(front, { x: "cost", y: "quality", curve: "step-after", stroke: colours.quiet, strokeWidth: 1.2 }),
        Plot.dot(places, { x: "cost", y: "quality", r: 4.5, fill: (place) => colours.series[devices.indexOf(place.device) % colours.series.length], fillOpacity: 0.75, stroke: colours.paper }),
        Plot.text(baselines, { y: "quality", frameAnchor: "right", textAnchor: "end", dy: -6, text: (row) => clip(row.label, 30), fill: colours.quiet, stroke: colours.paper, strokeWidth: 3 }),
        Plot.text(front, { x: "cost", y: "quality", text: (_, index) => String(index + 1), dy: -12, fontWeight: "bold", fill: colours.ink, stroke: colours.paper, strokeWidth: 3 }),
        Plot.tip(places, Plot.pointer({ x: "cost", y: "quality", title: (place) => `${place.label}\n${costText(place.cost)}, ${fixed(place.quality)}\n${place.device}` })),
        ...names.marks(marginLeft, marginTop),
      ],
    });
  };
  const after = make("ol", { class: "front", "aria-label": say`Rows that no cheaper row beats` }, ...front.map((place, index) => make("li", {},
    make("b", {}, String(index + 1)), make("button", { type: "button", onclick: () => openRow(place.index) }, place.label),
    make("span", { class: "number" }, `${costText(place.cost)} · ${fixed(place.quality)}`))));
  container.replaceChildren();
  addFigure(container, {
    title: say`${axis}, by ${costName}`, name: "costs", draw, full: true, after,
    table: { head: [say`row`, say`cost`, say`quality`, say`device`], rows: [...places].sort((a, b) => b.quality - a.quality).map((place) => [place.label, costText(place.cost), fixed(place.quality), place.device]) },
  });
}
// Two points are no picture.
const hasCosts = costKinds().length > 0 && priced.length > 2;
if (hasCosts) {
  openSection("costs");
  inEachLanguage(() => {
    fillSelect(costBy, costKinds(), costBy.value || "seconds");
    fillSelect(qualityBy, [...(sharedColumns.length > 1 ? [["mean", say`mean over the ${sharedColumns.length} sets that all rows have`]] : []), ...COLUMNS.map((column, index) => [index, column.name])], qualityBy.value || "mean");
  });
  costBy.addEventListener("change", drawCosts);
  qualityBy.addEventListener("change", drawCosts);
}

// Size and quality.
const sizesColumn = document.getElementById("sizes-column");
function drawSizes() {
  const chosen = DATA.sizes.curves.filter((curve) => String(curve.column) === sizesColumn.value);
  const labels = chosen.map((curve) => ROWS[curve.row].label);
  const places = chosen.flatMap((curve, series) => DATA.sizes.names.filter((name) => curve.points[name])
    .map((name) => ({ series, name, label: labels[series], mean: curve.points[name][0], low: curve.points[name][1], high: curve.points[name][2] })));
  const draw = (colours, width) => {
    const names = legend(labels, colours, width), colour = (place) => colours.series[place.series % colours.series.length];
    const marginLeft = 44, marginTop = 30 + names.height;
    return Plot.plot({
      ...look(colours, width), height: Math.min(420, Math.max(300, width * 0.5)) + names.height, marginLeft, marginTop, marginBottom: 50, marginRight: 20, grid: true,
      x: { type: "point", domain: DATA.sizes.names, tickFormat: (name) => say(name), label: say`numbers of an embedding →` },
      y: { label: `↑ ${say`${measureOf(sizesColumn.value)} × 100 on ${COLUMNS[sizesColumn.value].name}`}`, nice: true },
      marks: [
        Plot.ruleX(places.filter((place) => place.low !== null), { x: "name", y1: "low", y2: "high", stroke: colour, strokeOpacity: 0.4 }),
        Plot.line(places, { x: "name", y: "mean", z: "series", stroke: colour, strokeWidth: 1.6 }),
        Plot.dot(places, { x: "name", y: "mean", r: 4, fill: colour, stroke: colours.paper }),
        Plot.tip(places, Plot.pointer({ x: "name", y: "mean", title: (place) => `${place.label}\n${say(place.name)}: ${fixed(place.mean)}` })),
        ...names.marks(marginLeft, marginTop),
      ],
    });
  };
  const container = document.getElementById("sizes-figures");
  container.replaceChildren();
  addFigure(container, {
    title: say`Size and quality on ${COLUMNS[sizesColumn.value].name}`, name: "sizes", draw, full: true,
    table: { head: [say`row`, ...DATA.sizes.names.map((name) => say(name))], rows: chosen.map((curve, series) => [labels[series], ...DATA.sizes.names.map((name) => (curve.points[name] ? fixed(curve.points[name][0]) : "—"))]) },
  });
}
if (DATA.sizes.curves.length) {
  openSection("sizes");
  fillSelect(sizesColumn, [...new Set(DATA.sizes.curves.map((curve) => curve.column))].map((column) => [column, COLUMNS[column].name]), String(DATA.sizes.curves[0].column));
  sizesColumn.addEventListener("change", drawSizes);
}

// What is not decided.
const undecidedColumn = document.getElementById("undecided-column");
const testedBy = (way) => ({ rows: say`row by row`, intervals: say`by the intervals of both, which errs on the side of undecided`, seeds: say`by seeds` })[way];
const MOST_DECIDED = 3;  // are drawn beside those that are open, so that a reader sees where the line is
function drawUndecided() {
  const { column, best, others } = DATA.undecided.find((entry) => String(entry.column) === undecidedColumn.value);
  const open = others.filter((other) => other.open), decided = others.filter((other) => !other.open);
  const near = [...open, ...decided.slice(0, MOST_DECIDED)].sort((a, b) => b.points - a.points);
  const ways = [...new Set(others.map((other) => other.by))].map(testedBy).join(say`, or `);
  const left = decided.length - Math.min(MOST_DECIDED, decided.length);
  const draw = (colours, width) => {
    const names = shortNames(near.map((other) => ROWS[other.row].label), width);
    const colour = (other) => (other.open ? colours.warm : colours.accent);
    const placed = near.map((other, index) => ({ ...other, name: names[index] }));
    return Plot.plot({
      ...look(colours, width), marginLeft: marginFor(names), marginTop: 30, marginBottom: 42, marginRight: 16, height: 78 + 24 * near.length,
      x: { label: say`points less than the best, ${clip(ROWS[best].label, letters(width, 0.5))} →`, grid: true, domain: [Math.min(0, d3.min(near, (other) => other.low)), Math.max(0, d3.max(near, (other) => other.high))], nice: true },
      y: { domain: names, label: null, tickSize: 0 },
      marks: [
        Plot.ruleX([0], { stroke: colours.ink }),
        Plot.ruleY(placed, { y: "name", x1: "low", x2: "high", stroke: colour, strokeWidth: 2 }),
        Plot.dot(placed, { y: "name", x: "points", r: 4.5, fill: (other) => (other.open ? colours.paper : colours.accent), stroke: colour, strokeWidth: 2 }),
        Plot.tip(placed, Plot.pointerY({ y: "name", x: "points", title: (other) => `${ROWS[other.row].label}\n${say`${other.text}, 95 % interval ${span(other.ends)}`}` })),
      ],
    });
  };
  const container = document.getElementById("undecided-figures");
  container.replaceChildren();
  addFigure(container, {
    title: say`${COLUMNS[column].name}: ${open.length} of ${others.length} rows cannot be told from the best, ${ROWS[best].label}`, name: "undecided", draw,
    caption: [say`Hollow: the interval contains 0.`, say`Compared ${ways}.`, left ? say`Not drawn: ${left} more rows that are certainly lower.` : ""].join(" ").trim(),
    table: { head: [say`row`, say`points`, say`95 % interval`, say`decided`, say`compared`], rows: others.map((other) => [ROWS[other.row].label, other.text, span(other.ends), other.open ? say`no` : say`yes`, testedBy(other.by)]) },
  });
  const pick = (entry) => make("button", { type: "button", onclick: () => { undecidedColumn.value = entry.column; drawUndecided(); } }, COLUMNS[entry.column].name);
  const overview = plainTable([say`set`, say`best row`, say`not decided`], DATA.undecided.map((entry) => [pick(entry), ROWS[entry.best].label, `${entry.others.filter((other) => other.open).length} / ${entry.others.length}`]), say`Every set`);
  overview.classList.add("pick");
  container.append(make("figure", {}, make("h3", {}, say`Every set`), overview));
}
if (DATA.undecided.some((entry) => entry.others.some((other) => other.open))) {
  openSection("undecided");
  fillSelect(undecidedColumn, DATA.undecided.map((entry) => [entry.column, COLUMNS[entry.column].name]), DATA.undecided[0].column);
  undecidedColumn.addEventListener("change", drawUndecided);
}

function openSection(name) {
  for (const element of document.querySelectorAll(`[data-section="${name}"]`)) element.hidden = false;
}
