// The matrix: its colours and orders, the panel of a cell, keys, and the same picture as an SVG.
const PANELS = JSON.parse(document.getElementById("panels").textContent);
const ROWS = DATA.rows, COLUMNS = DATA.columns;
const measureOf = (column) => say(COLUMNS[column].measure ?? DATA.metric);
const grid = document.getElementById("grid");
const body = grid.tBodies[0];
const panel = document.getElementById("panel");
const lines = [...body.rows];
const headCells = [...grid.tHead.rows[0].cells].slice(1);
const cellAt = lines.map((line) => [...line.cells].slice(1));
const rowOrder = document.getElementById("row-order");
const columnOrder = document.getElementById("column-order");
const colourBy = document.getElementById("colour-by");
/** Ends of an interval, as texts. */
const span = ([low, high]) => say`${low} to ${high}`;
/** Training in words: its time, device and stages. */
function trainingOf({ time, device, stages, rows }) {
  const first = [time, device && say`on ${device}`].filter(Boolean).join(" ");
  return [first, stages > 1 && say`${stages} stages`, rows && say`${rows} rows seen`].filter(Boolean).join(say`, `);
}
const cellOf = (row, column) => ROWS[row].cells?.[column];
document.documentElement.style.setProperty("--columns", COLUMNS.length);

grid.style.setProperty("--head", `${Math.min(8, 0.6 + 0.47 * d3.max(COLUMNS, (column) => column.short.length))}rem`);
// A matrix that fits stands in the page, its head at the top of the window; a wider one scrolls in a frame.
const frame = document.getElementById("frame");
new ResizeObserver(() => {
  frame.classList.remove("fits");
  frame.classList.toggle("fits", grid.scrollWidth <= frame.clientWidth + 1);
}).observe(document.body);

// Colours are steps of the style sheet, `s` of scores and `g` of gains; the page comes with those of the first choice.
const STEPS = DATA.heat.s.length;
/** ends: texts at the ends of the scale; share: where a cell lies between them, from 0 to 1, null where it has no place. */
function makeScale() {
  const by = colourBy.value;
  const cells = ROWS.flatMap((row) => Object.values(row.cells ?? {}));
  if (by === "gain") {
    // Each set has a scale of its own: white is no gain, the ends are its largest gain or loss.
    const most = COLUMNS.map((_, column) => d3.max(ROWS, (_, row) => Math.abs(cellOf(row, column)?.gain ?? 0)) || 1);
    return { palette: "g", ends: [say`largest loss of the set`, say`largest gain`], share: (cell, column) => (cell.gain === undefined ? null : (cell.gain / most[column] + 1) / 2) };
  }
  if (by === "within") {
    const extents = COLUMNS.map((_, column) => d3.extent(ROWS.flatMap((_, row) => cellOf(row, column)?.mean ?? [])));
    return { palette: "s", ends: [say`lowest of the set`, say`highest`],
      share: (cell, column) => (extents[column][0] === extents[column][1] ? 0.5 : (cell.mean - extents[column][0]) / (extents[column][1] - extents[column][0])) };
  }
  const [low, high] = d3.extent(cells, (cell) => cell.mean);
  return { palette: "s", ends: [fixed(low ?? 0), fixed(high ?? 0)], share: (cell) => (low === high ? 0.5 : (cell.mean - low) / (high - low)) };
}
const stepOf = (share) => Math.round(share * (STEPS - 1));

function paintGrid() {
  const scale = makeScale();
  cellAt.forEach((cells, row) => cells.forEach((element, column) => {
    const cell = cellOf(row, column), share = cell ? scale.share(cell, column) : null;
    if (share === null) delete element.dataset.heat; else element.dataset.heat = scale.palette + stepOf(share);
  }));
  [...document.getElementById("scale-bar").children].forEach((part, step) => { part.dataset.heat = scale.palette + step; });
  document.getElementById("scale-low").textContent = scale.ends[0];
  document.getElementById("scale-high").textContent = scale.ends[1];
}
colourBy.addEventListener("change", paintGrid);
turns.push(paintGrid);

// Orders. "given", "alike", "name", or the number of a column (of rows) or of a row (of columns); sign: which way.
const state = { rows: { by: "given", sign: 1 }, columns: { by: "given", sign: 1 } };
inEachLanguage(() => {
  const named = [["given", say`as in the tables`], ["alike", say`alike side by side`], ["name", say`by name`]];
  const kinds = named.filter(([key]) => key !== "alike" || (ROWS.length > 2 && COLUMNS.length > 2));
  fillSelect(rowOrder, [...kinds, ...COLUMNS.map((column, index) => [index, say`by ${column.name}`])], state.rows.by);
  fillSelect(columnOrder, [...kinds, ...ROWS.map((row, index) => [index, say`by ${row.label}`])], state.columns.by);
});

function order(count, alike, nameOf, valueOf, { by, sign }) {
  const numbers = d3.range(count);
  if (by === "given") return numbers;
  if (by === "alike") return alike;
  if (by === "name") return numbers.sort((a, b) => nameOf(a).localeCompare(nameOf(b)));
  const value = (index) => valueOf(index, Number(by));
  // What has no score stands last, whichever way.
  return numbers.sort((a, b) => (value(a) === undefined) - (value(b) === undefined) || sign * ((value(b) ?? 0) - (value(a) ?? 0)));
}
const rowsNow = () => order(ROWS.length, DATA.orders.rows, (row) => ROWS[row].label, (row, column) => cellOf(row, column)?.mean, state.rows);
const columnsNow = () => order(COLUMNS.length, DATA.orders.columns, (column) => COLUMNS[column].name, (column, row) => cellOf(row, column)?.mean, state.columns);

function arrange() {
  const columns = columnsNow();
  const head = grid.tHead.rows[0];
  head.append(...columns.map((column) => headCells[column]));
  lines.forEach((line, row) => line.append(...columns.map((column) => cellAt[row][column])));
  body.append(...rowsNow().map((row) => lines[row]));
  headCells.forEach((cell, column) => {
    if (String(column) === String(state.rows.by)) cell.setAttribute("aria-sort", state.rows.sign > 0 ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
  lines.forEach((line, row) => line.querySelector(".row-sort").classList.toggle("sorted", String(row) === String(state.columns.by)));
  rowOrder.value = state.rows.by;
  columnOrder.value = state.columns.by;
  hidePanel();
}
/** A first time downwards, then upwards, then as given. */
function sortBy(side, by) {
  const now = state[side];
  const again = String(now.by) === String(by);
  state[side] = !again ? { by, sign: 1 } : now.sign > 0 ? { by, sign: -1 } : { by: "given", sign: 1 };
  arrange();
}
rowOrder.addEventListener("change", () => { state.rows = { by: rowOrder.value, sign: 1 }; arrange(); });
columnOrder.addEventListener("change", () => { state.columns = { by: columnOrder.value, sign: 1 }; arrange(); });

// The panel of a cell.
let pinned = null, isLeaving = false;
function cellFacts(row, column, pin) {
  const { label, setup, less, cost, commands, reasons } = ROWS[row], cell = cellOf(row, column);
  const title = make("h3", {}, say`${label} on ${COLUMNS[column].name}`);
  if (!cell) return [title, make("p", { class: "note" }, reasons?.[column] ? say`No score: ${say(reasons[column])}` : say`No score.`)];
  const [mean, ...spread] = cell.text.split(" ");
  const list = make("dl", { class: "facts" });
  facts(list, [
    [say`95 % interval`, cell.ends && span(cell.ends)],
    [say`seed`, cell.seeds],
    [say`gain`, cell.gained && say`${cell.gained} over ${ROWS[cell.before].label}`],
    [say`rows scored`, cell.count?.toLocaleString("en")],
    [say`trained on it`, cell.trained ? say`yes` : ""],
    [say`leak`, cell.leak && say(cell.leak)],
    [say`without leaks`, cell.unseen && say(cell.unseen)],
    [say`baseline`, cell.below ? say`below the lexical baseline` : ""],
    [say`fewer rows`, less?.map((phrase) => say(phrase)).join(say`; `)],
    [say`setup`, setup],
    [say`training`, cost ? trainingOf({ ...cost, rows: null }) : say`none`],
    [say`code`, pin && cell.commit],
  ]);
  const command = pin && cell.command !== undefined ? make("code", { class: "command" }, commands[cell.command]) : null;
  return [title, make("div", { class: "score" }, mean, make("small", {}, ` ${spread.join(" ")} ${measureOf(column)}`)), list, command].filter(Boolean);
}

function showPanel(element, pin) {
  if (pinned && !pin) return;
  const row = Number(element.closest("tr").dataset.row), column = Number(element.dataset.column);
  pinned?.classList.remove("pinned");
  pinned = pin ? element : null;
  element.classList.toggle("pinned", pin);
  const tools = pin ? [make("div", { class: "panel-tools" },
    make("button", { type: "button", onclick: () => { hidePanel(); openRow(row); } }, say`Open this row`),
    make("button", { type: "button", onclick: () => leavePanel(element) }, say`Close`))] : [];
  panel.replaceChildren(...tools, ...cellFacts(row, column, pin));
  panel.hidden = false;
  const box = element.getBoundingClientRect(), gap = 8;
  const left = box.right + gap + panel.offsetWidth < innerWidth ? box.right + gap : box.left - gap - panel.offsetWidth;
  const top = Math.min(box.top, innerHeight - panel.offsetHeight - gap);
  panel.style.left = `${Math.max(gap, left)}px`;
  panel.style.top = `${Math.max(gap, top)}px`;
}
turns.push(hidePanel);
function hidePanel() {
  pinned?.classList.remove("pinned");
  pinned = null;
  panel.hidden = true;
}

/** Closes the panel and goes back to its cell, which does not open it again. */
function leavePanel(cell) {
  hidePanel();
  isLeaving = true;
  cell?.focus();
  isLeaving = false;
}

// A panel that moves brings other cells under a pointer that rests: that is no pointing.
let pointer = "";
grid.addEventListener("pointermove", (event) => {
  const place = `${event.screenX} ${event.screenY}`;
  if (event.pointerType === "touch" || place === pointer) return;
  pointer = place;
  const cell = event.target.closest(".cell");
  if (cell) showPanel(cell, false); else if (!pinned) hidePanel();
});
grid.addEventListener("pointerleave", () => { if (!pinned) hidePanel(); });
frame.addEventListener("scroll", () => { if (!pinned || innerWidth > 768) hidePanel(); }, { passive: true });
grid.addEventListener("focusin", (event) => {
  const cell = event.target.closest(".cell");
  if (cell && !isLeaving && cell.matches(":focus-visible")) showPanel(cell, false);
});
grid.addEventListener("focusout", () => { if (!pinned) hidePanel(); });
document.addEventListener("click", (event) => {
  const cell = event.target.closest("#grid .cell");
  if (cell) { moveTo(cell); showPanel(cell, true); return; }
  if (!panel.contains(event.target)) hidePanel();
  const head = event.target.closest("#grid thead button"), name = event.target.closest(".row-name"), sorts = event.target.closest(".row-sort");
  if (head) sortBy("rows", Number(head.closest("th").dataset.column));
  if (name) openRow(Number(name.closest("tr").dataset.row));
  if (sorts) sortBy("columns", Number(sorts.closest("tr").dataset.row));
});

// Keys. One place of the matrix is reached by Tab; arrows move from there, in the order in which rows and columns stand.
const focusable = (cell) => cell.querySelector("button") ?? cell;
const places = () => [[...grid.tHead.rows[0].cells], ...[...body.rows].map((line) => [...line.cells])];
function moveTo(element) {
  grid.querySelectorAll('[tabindex="0"]').forEach((other) => { other.tabIndex = -1; });
  element.tabIndex = 0;
  element.focus();
}
if (lines.length && COLUMNS.length) cellAt[0][0].tabIndex = 0;
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
grid.addEventListener("keydown", (event) => {
  const here = event.target.closest("td, th");
  if (!here) return;
  if ((event.key === "Enter" || event.key === " ") && here.classList.contains("cell")) {
    event.preventDefault();
    showPanel(here, true);
    panel.querySelector("button").focus();
    return;
  }
  const table = places(), row = table.findIndex((line) => line.includes(here)), column = table[row].indexOf(here);
  let target;
  if (event.key in MOVES) target = table[row + MOVES[event.key][0]]?.[column + MOVES[event.key][1]];
  else if (event.key === "Home") target = table[event.ctrlKey ? 1 : row][1];
  else if (event.key === "End") target = table[event.ctrlKey ? table.length - 1 : row].at(-1);
  else return;
  event.preventDefault();
  if (target && !target.classList.contains("corner")) moveTo(focusable(target));
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || panel.hidden) return;
  leavePanel(pinned);
});

// The same picture as an SVG: rows, columns and colours as they stand.
function matrixSvg() {
  const rows = rowsNow(), columns = columnsNow(), scale = makeScale();
  const cells = rows.flatMap((row) => columns.flatMap((column) => {
    const cell = cellOf(row, column);
    if (!cell) return [];
    const share = scale.share(cell, column), fill = share === null ? "#eeeeee" : DATA.heat[scale.palette][stepOf(share)];
    const signs = (cell.leaky ? "†" : "") + (cell.below ? "▽" : "");
    return [{ row, column, fill, ink: inkOn(fill), leaky: cell.leaky, below: cell.below, text: cell.text.split(" ")[0] + signs, best: cell.best, trained: cell.trained }];
  }));
  const label = (row) => clip(ROWS[row].label, 44), name = (column) => clip(COLUMNS[column].name, 30);
  const marginLeft = 20 + 5.8 * d3.max(rows, (row) => label(row).length), marginTop = 24 + 4.4 * d3.max(columns, (column) => name(column).length);
  const shared = { x: "column", y: "row" }, has = (mark) => cells.some((cell) => cell[mark]);
  return Plot.plot({
    width: marginLeft + 42 * columns.length + 60, height: marginTop + 20 * rows.length + 60, marginLeft, marginTop, marginRight: 60, marginBottom: 60,
    style: { fontSize: "10px" }, x: { domain: columns, tickFormat: name, tickRotate: -45, axis: "top", label: null, tickSize: 0 },
    y: { domain: rows, tickFormat: label, label: null, tickSize: 0 }, color: { type: "identity" },
    marks: [
      Plot.cell(cells, { ...shared, fill: "fill", inset: 0.5 }),
      Plot.cell(cells.filter((cell) => cell.trained), { ...shared, fill: "none", stroke: "ink", strokeWidth: 1.4, inset: 1.5 }),
      Plot.text(cells.filter((cell) => !cell.best), { ...shared, text: "text", fill: "ink" }),
      Plot.text(cells.filter((cell) => cell.best), { ...shared, text: "text", fill: "ink", fontWeight: "bold" }),
      Plot.text([[say`${say(DATA.metric)} × 100. Colour: ${colourBy.selectedOptions[0].text}, ${scale.ends[0]} to ${scale.ends[1]}.`, ...(has("trained") ? [say`Outlined: trained on it.`] : []), say`Bold: best of the set.`,
        ...(has("leaky") ? [say`† leaky.`] : []), ...(has("below") ? [say`▽ below the lexical baseline.`] : [])].join(" ")],
        { frameAnchor: "bottom-left", dy: 16, dx: 20 - marginLeft, lineAnchor: "top", textAnchor: "start", fill: THEMES.light.quiet, lineWidth: (marginLeft + 42 * columns.length) / 10 }),
    ],
  });
}
document.querySelector('.save[data-figure="matrix"]').addEventListener("click", () => saveSvg(matrixSvg(), "matrix"));
performance.mark("matrix");
