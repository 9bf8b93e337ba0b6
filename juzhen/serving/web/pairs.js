// A file of pairs: read in the browser, scored by the server, drawn and saved.
import { EXAMPLE, inEachLanguage, say } from "./words.js";
import { ask, at, complain, make, number } from "./parts.js";

const MOST_ROWS = 20000, CHUNK = 64, SHOWN = 200, BINS = 24, MOST_SERIES = 4;
const NAMES = { a: ["text_a", "sentence1", "sentence_a", "text1", "premise", "anchor", "query", "question1", "first"], b: ["text_b", "sentence2", "sentence_b", "text2", "hypothesis", "positive", "document", "question2", "second"], gold: ["label", "score", "gold", "gold_label", "similarity", "same"] };
const columns = { a: at("column-a"), b: at("column-b"), gold: at("column-gold") };
let table = null, result = null, running = null, highestFirst = true, state = [], draw = () => {};

/** What is going on, in the language that is shown. */
function tell(...words) {
  state = words;
  at("file-state").textContent = words.length ? say(...words) : "";
}

/** UTF-8, else GB18030, in which tables of Chinese offices often are. */
function decoded(bytes) {
  try { return new TextDecoder("utf-8", { fatal: true }).decode(bytes); } catch { return new TextDecoder("gb18030").decode(bytes); }
}
/** Rows of cells: tabs part cells where the first line has one, else commas, with quotes as RFC 4180 has them. */
export function rowsOf(text) {
  const lines = text.replace(/\r\n?/g, "\n");
  if (lines.slice(0, lines.indexOf("\n") >>> 0).includes("\t")) return lines.split("\n").filter((line) => line.trim()).map((line) => line.split("\t"));
  const rows = [[]];
  for (const [, cell, end] of lines.matchAll(/((?:"(?:[^"]|"")*"|[^,\n])*)(,|\n|$)/g)) {
    rows.at(-1).push(cell.startsWith('"') ? cell.slice(1, cell.endsWith('"') ? -1 : undefined).replaceAll('""', '"') : cell);
    if (end === "\n") rows.push([]);
    if (end === "") break;
  }
  return rows.filter((row) => row.some((cell) => cell.trim()));
}
const isNumber = (cell) => cell?.trim() !== "" && Number.isFinite(Number(cell));
const place = (head, names) => names.map((name) => head.indexOf(name)).find((found) => found >= 0) ?? -1;

function open(text, name) {
  const rows = rowsOf(text);
  at("scored").hidden = true;
  at("file-name").textContent = name;
  if (rows.length === 0 || Math.max(...rows.map((row) => row.length)) < 2) {
    at("columns").hidden = true;
    tell("oneColumn");
    return;
  }
  const head = rows[0].map((cell) => cell.trim().toLowerCase()), known = Object.values(NAMES).flat();
  table = { name, rows, width: Math.max(...rows.map((row) => row.length)) };
  at("header").checked = head.some((cell) => known.includes(cell)) || rows[0].some((cell, column) => !isNumber(cell) && rows.length > 2 && rows.slice(1, 20).every((row) => isNumber(row[column])));
  const lengths = Array.from({ length: table.width }, (_, column) => rows.slice(1, 50).reduce((sum, row) => sum + (isNumber(row[column]) ? 0 : row[column]?.length ?? 0), 0));
  const texts = lengths.map((length, column) => [length, column]).sort((one, other) => other[0] - one[0] || one[1] - other[1]).slice(0, 2).map(([, column]) => column).sort((one, other) => one - other);
  const gold = place(head, NAMES.gold), scored = rows[0].findIndex((_, column) => !texts.includes(column) && rows.slice(1, 20).every((row) => isNumber(row[column])) && column === table.width - 1);
  const named = [place(head, NAMES.a), place(head, NAMES.b)];
  const chosen = { a: named[0] >= 0 ? named[0] : texts[0], b: named[1] >= 0 ? named[1] : texts[1], gold: gold >= 0 ? gold : scored };
  fillColumns(chosen);
  at("columns").hidden = false;
  count();
}
function fillColumns(chosen) {
  for (const [part, select] of Object.entries(columns)) {
    const names = table.rows[0].map((cell, column) => (at("header").checked ? cell.trim() : "") || say("column", column + 1));
    select.replaceChildren(...(part === "gold" ? [make("option", { value: -1 }, say("none"))] : []), ...names.map((name, column) => make("option", { value: column }, name)));
    select.value = chosen[part];
  }
}
const chosen = () => Object.fromEntries(Object.entries(columns).map(([part, select]) => [part, Number(select.value)]));

/** The rows that have both texts. */
function pairs() {
  const { a, b, gold } = chosen(), rows = table.rows.slice(at("header").checked ? 1 : 0);
  const whole = rows.filter((row) => row[a]?.trim() && row[b]?.trim());
  return { empty: rows.length - whole.length, rows: whole.map((cells) => ({ cells, a: cells[a], b: cells[b], gold: gold < 0 ? null : cells[gold]?.trim() ?? "" })) };
}
function count() {
  const { rows, empty } = pairs();
  at("start").disabled = rows.length === 0 || rows.length > MOST_ROWS;
  if (rows.length > MOST_ROWS) tell("tooMany", rows.length, MOST_ROWS);
  else if (rows.length) tell("rows", rows.length, empty);
  else tell("noRows");
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
  result = { rows: done, head: at("header").checked ? table.rows[0] : null, name: table.name, model };
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
  const facts = [`${sorted.length} ${say("pairs")}`, `${say("mean")} ${number(scores.reduce((sum, value) => sum + value, 0) / scores.length)}`, `${say("median")} ${number(median)}`, `${say("range")} ${number(sorted[0])} … ${number(sorted.at(-1))}`];
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
  const line = (cells) => cells.map((cell) => cell.replace(/[\t\n]/g, " ")).join("\t"), width = table.width;
  const wide = (cells) => Array.from({ length: width }, (_, column) => cells[column] ?? "");
  const lines = [...(result.head ? [line([...wide(result.head), `score ${result.model}`])] : []), ...result.rows.map((row) => line([...wide(row.cells), String(row.score)]))];
  const link = make("a", { href: URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/tab-separated-values" })), download: `${result.name.replace(/\.[^.]*$/, "")}.scored.tsv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** What can score is known. */
export function startFile(cards) {
  at("judge").replaceChildren(...cards.map((card) => make("option", { value: card.id }, card.id)));
  at("judge-label").hidden = cards.length < 2;
}
const read = async (file) => { if (file) open(decoded(await file.arrayBuffer()), file.name); };
at("file").addEventListener("change", () => { read(at("file").files[0]).catch(complain); at("file").value = ""; });
at("example").addEventListener("click", () => open(EXAMPLE, "example.tsv"));
[...Object.values(columns), at("header")].forEach((part) => part.addEventListener("change", () => { fillColumns(chosen()); count(); }));
at("start").addEventListener("click", score);
at("stop").addEventListener("click", () => running.abort());
at("save").addEventListener("click", save);
at("turn").addEventListener("click", () => { highestFirst = !highestFirst; show(); });
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    at("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") read(event.dataTransfer.files[0]).catch(complain);
  });
}
addEventListener("resize", () => draw());
inEachLanguage(() => { if (table) fillColumns(chosen()); tell(...state); if (result) show(); });
