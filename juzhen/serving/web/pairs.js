// A file of pairs: read and scored by the server, drawn and saved.
import { EXAMPLE, inEachLanguage, say } from "./words.js";
import { ask, at, complain, make, number } from "./parts.js";

const CHUNK = 64, SHOWN = 200, FIRST = 5, BINS = 24, MOST_SERIES = 4;
const columns = { a: at("column-a"), b: at("column-b"), gold: at("column-gold") };
let file = null, table = null, result = null, running = null, highestFirst = true, state = [], draw = () => {};

/** What is going on, in the language that is shown. */
function tell(...words) {
  state = words;
  at("file-state").textContent = words.length ? say(...words) : "";
}
const isNumber = (cell) => cell?.trim() !== "" && Number.isFinite(Number(cell));

/** Has the server read the file: its columns, and which of them are the texts, as `juzhen dataset` knows them. */
async function open(answers = {}) {
  at("scored").hidden = at("columns").hidden = true;
  at("file-name").textContent = file.name;
  table = null;
  tell("reading");
  try {
    table = await ask(`table?${new URLSearchParams({ name: file.name, ...answers })}`, file.content);
  } catch (error) {
    tell();
    throw error;
  }
  complain(table.unclear && new Error(table.unclear));
  at("header-label").hidden = table.header === null;
  at("header").checked = table.header;
  at("sheet").replaceChildren(...table.sheets.map((name) => make("option", { value: name }, name)));
  at("sheet-label").hidden = table.sheets.length < 2;
  if (table.names.length < 2) {
    tell("oneColumn");
    at("columns").hidden = table.sheets.length < 2; // another sheet may have pairs
    at("start").disabled = true;
    at("first-rows").replaceChildren();
    Object.values(columns).forEach((select) => select.replaceChildren());
    return;
  }
  fillColumns(table.columns);
  at("columns").hidden = false;
  count();
}
function fillColumns(chosen) {
  for (const [part, select] of Object.entries(columns)) {
    const names = table.names.map((name, column) => name || say("column", column + 1));
    select.replaceChildren(...(part === "gold" ? [make("option", { value: -1 }, say("none"))] : []), ...names.map((name, column) => make("option", { value: column }, name)));
    select.value = chosen[part];
  }
}
const chosen = () => Object.fromEntries(Object.entries(columns).map(([part, select]) => [part, Number(select.value)]));

/** The rows that have both texts. */
function pairs() {
  const { a, b, gold } = chosen();
  const whole = table.rows.filter((row) => row[a] && row[b]);
  return { empty: table.rows.length - whole.length, rows: whole.map((cells) => ({ cells, a: cells[a], b: cells[b], gold: gold < 0 ? null : cells[gold] })) };
}
/** How many rows there are, and the first of them, as they would be scored. */
function count() {
  const { rows, empty } = pairs(), { a, b } = chosen(), kind = (column) => ([a, b].includes(column) ? "chosen" : null);
  at("start").disabled = rows.length === 0;
  if (rows.length) tell("rows", rows.length, empty, table.left_out);
  else tell("noRows");
  at("first-rows").replaceChildren(
    make("caption", { class: "words" }, say("firstRows")),
    make("thead", {}, make("tr", {}, ...table.names.map((name, column) => make("th", { scope: "col", class: kind(column) }, name || say("column", column + 1))))),
    make("tbody", {}, ...table.rows.slice(0, FIRST).map((row) => make("tr", {}, ...row.map((cell, column) => make("td", { class: kind(column) }, cell))))),
  );
}

async function score() {
  const { rows } = pairs(), began = performance.now(), model = at("judge").value;
  running = new AbortController();
  busy(true);
  const done = [];
  try {
    for (let start = 0; start < rows.length; start += CHUNK) {
      const chunk = rows.slice(start, start + CHUNK);
      const { scores } = await ask("score", { model, pairs: chunk.map((row) => [row.a, row.b]), truncate: true }, running.signal);
      chunk.forEach((row, number) => done.push({ ...row, score: scores[number] }));
      at("progress").value = done.length / rows.length;
      tell("scored", done.length, rows.length);
    }
    complain(null);
    tell("ready", done.length, number((performance.now() - began) / 1000, 1));
  } catch (error) {
    tell("stopped", done.length);
    if (error.name !== "AbortError") complain(error);
  }
  busy(false);
  if (!done.length) return;
  result = { rows: done, head: table.header === false ? null : table.names, name: table.name, model };
  show();
}
function busy(is) {
  at("stop").hidden = at("progress").hidden = !is;
  at("start").hidden = is;
  at("progress").value = 0;
}

/** Ranks from 1, equals share their mean. */
export function ranks(values) {
  const order = values.map((_, place) => place).sort((one, other) => values[one] - values[other]), given = new Array(values.length);
  for (let start = 0; start < order.length;) {
    let end = start;
    while (end < order.length && values[order[end]] === values[order[start]]) end += 1;
    for (let place = start; place < end; place += 1) given[order[place]] = (start + end + 1) / 2;
    start = end;
  }
  return given;
}
export function spearman(first, second) {
  const [x, y] = [ranks(first), ranks(second)], middle = (first.length + 1) / 2;
  const sum = (one, other) => one.reduce((total, value, place) => total + (value - middle) * (other[place] - middle), 0);
  return sum(x, y) / Math.sqrt(sum(x, x) * sum(y, y));
}

function show() {
  const scores = result.rows.map((row) => row.score), sorted = [...scores].sort((one, other) => one - other);
  const labels = [...new Set(result.rows.map((row) => row.gold))].sort();
  const series = labels.length <= MOST_SERIES && labels[0] !== null ? labels : [null];
  const middle = sorted.length >> 1, median = sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  const facts = [say("pairs", sorted.length), `${say("mean")} ${number(scores.reduce((sum, value) => sum + value, 0) / scores.length)}`, `${say("median")} ${number(median)}`, `${say("range")} ${number(sorted[0])} … ${number(sorted.at(-1))}`];
  if (labels.length > 1 && labels.every((label) => label !== null && isNumber(label))) facts.push(`${say("spearman")} ${number(spearman(scores, result.rows.map((row) => Number(row.gold))))}`);
  const keys = series[0] === null ? [] : series.map((label, number) => make("span", {}, make("i", { class: `key s${number}` }), label || say("none")));
  at("histogram-note").replaceChildren(...keys, ...facts.map((fact) => make("span", {}, fact)));
  const ordered = [...result.rows].sort((one, other) => (highestFirst ? other.score - one.score : one.score - other.score)).slice(0, SHOWN);
  const heads = ["score", "first", "second", ...(labels[0] === null ? [] : ["gold"])];
  at("pair-table").replaceChildren(
    make("caption", { class: "words" }, say("shown", ordered.length, scores.length)),
    make("thead", {}, make("tr", {}, ...heads.map((name) => make("th", { scope: "col", class: name === "score" && "number" }, say(name))))),
    make("tbody", {}, ...ordered.map((row) => make("tr", {}, make("td", { class: "number" }, number(row.score)), make("td", {}, row.a), make("td", {}, row.b), ...(row.gold === null ? [] : [make("td", {}, row.gold)])))),
  );
  at("turn").textContent = say(highestFirst ? "lowest" : "highest");
  at("scored").hidden = false;
  draw = () => at("histogram").replaceChildren(histogram(scores, series, sorted));
  draw();
}

/** Bars of the labels stand on each other. */
function histogram(scores, series, sorted) {
  const [width, height, foot, left] = [Math.max(240, at("histogram").clientWidth), 220, 24, 40], low = sorted[0], span = sorted.at(-1) - low || 1e-6;
  const counts = Array.from({ length: BINS }, () => series.map(() => 0));
  result.rows.forEach((row) => { counts[Math.min(BINS - 1, Math.floor((BINS * (row.score - low)) / span))][Math.max(0, series.indexOf(row.gold))] += 1; });
  const most = Math.max(...counts.map((bin) => bin.reduce((sum, value) => sum + value, 0))), wide = (width - left) / BINS;
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": say("chart", scores.length, number(low), number(sorted.at(-1))) });
  const up = (value) => ((height - foot - 12) * value) / most;
  for (const value of new Set([0, Math.round(most / 2), most])) {
    const y = height - foot - up(value);
    svg.append(drawn("line", { x1: left, x2: width, y1: y, y2: y }), drawn("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, String(value)));
  }
  counts.forEach((bin, place) => {
    let base = 0;
    bin.forEach((value, label) => {
      if (value) svg.append(drawn("rect", { class: `s${label}`, x: left + place * wide + 1, width: wide - 2, y: height - foot - up(base + value), height: up(value) }));
      base += value;
    });
  });
  for (let tick = 0; tick <= 4; tick += 1) svg.append(drawn("text", { x: left + (tick * (width - left)) / 4, y: height - 6, "text-anchor": ["start", "middle", "middle", "middle", "end"][tick] }, number(low + (tick * span) / 4, 2)));
  return svg;
}
function drawn(tag, attributes, text = "") {
  const part = document.createElementNS("http://www.w3.org/2000/svg", tag);
  Object.entries(attributes).forEach(([name, value]) => part.setAttribute(name, value));
  part.textContent = text;
  return part;
}

function save() {
  const line = (cells) => cells.map((cell) => cell.replace(/[\t\n]/g, " ")).join("\t");
  const lines = [...(result.head ? [line([...result.head, `score ${result.model}`])] : []), ...result.rows.map((row) => line([...row.cells, String(row.score)]))];
  const link = make("a", { href: URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/tab-separated-values" })), download: `${result.name.replace(/\.[^.]*$/, "")}.scored.tsv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** What can score is known. */
export function startFile(cards) {
  at("judge").replaceChildren(...cards.map((card) => make("option", { value: card.id }, card.id)));
  at("judge-label").hidden = cards.length < 2;
}
const read = (content, name) => { if (content) { file = { content, name: name ?? content.name }; open().catch(complain); } };
const again = () => open({ header: at("header").checked ? "1" : "0", ...(table.sheets.length > 1 ? { sheet: at("sheet").value } : {}) }).catch(complain);
at("file").addEventListener("change", () => { read(at("file").files[0]); at("file").value = ""; });
at("example").addEventListener("click", () => read(new Blob([EXAMPLE]), "example.tsv"));
Object.values(columns).forEach((part) => part.addEventListener("change", count));
at("header").addEventListener("change", again);
at("sheet").addEventListener("change", () => open({ sheet: at("sheet").value }).catch(complain));
at("start").addEventListener("click", score);
at("stop").addEventListener("click", () => running.abort());
at("save").addEventListener("click", save);
at("turn").addEventListener("click", () => { highestFirst = !highestFirst; show(); });
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    at("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") read(event.dataTransfer.files[0]);
  });
}
addEventListener("resize", () => draw());
inEachLanguage(() => { if (table?.names.length > 1) { const columns = chosen(), words = state; fillColumns(columns); count(); state = words; } tell(...state); if (result) show(); });
