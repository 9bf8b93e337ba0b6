"use strict";
// Sorting: a heading sorts downwards, then upwards, then puts rows back as they were. What is missing stays last.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const original = [...body.rows];
  const keyOf = (row, place) => row.cells[place].dataset.sort ?? row.cells[place].textContent.trim();
  heads.forEach((head, place) => head.querySelector("button").addEventListener("click", () => {
    const next = { descending: "ascending", ascending: null }[head.getAttribute("aria-sort")];
    const order = next === undefined ? "descending" : next;
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    if (order) head.setAttribute("aria-sort", order);
    const keys = new Map(original.map((row) => [row, keyOf(row, place)]));
    const numeric = original.every((row) => keys.get(row) === "" || !Number.isNaN(Number(keys.get(row))));
    const compare = (a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      const up = numeric ? Number(x) - Number(y) : x.localeCompare(y);
      return order === "ascending" ? up : -up;
    };
    body.append(...(order ? [...original].sort(compare) : original));
  }));
}

// The panel: what is known of a cell, beside it on wide screens, at the bottom on narrow ones.
const panel = document.getElementById("panel");
const matrix = document.querySelector("table.matrix");
let shown = null;

function show(cell) {
  if (shown === cell) return;
  shown = cell;
  panel.innerHTML = cell.querySelector(".facts").innerHTML;
  panel.hidden = false;
  const box = cell.getBoundingClientRect();
  const left = Math.min(box.left, window.innerWidth - panel.offsetWidth - 8);
  const below = box.bottom + 6;
  const fits = below + panel.offsetHeight < window.innerHeight;
  panel.style.left = `${Math.max(8, left)}px`;
  panel.style.top = `${Math.max(8, fits ? below : box.top - panel.offsetHeight - 6)}px`;
}

function hide() {
  shown = null;
  panel.hidden = true;
}

// One cell can be reached by Tab; arrow keys move from there, in the order in which the rows stand now.
const cells = () => [...matrix.tBodies[0].rows].map((row) => [...row.querySelectorAll("td.cell")]);
const first = matrix.querySelector("td.cell");
if (first) first.tabIndex = 0;

function moveTo(cell) {
  matrix.querySelectorAll('td.cell[tabindex="0"]').forEach((other) => { other.tabIndex = -1; });
  cell.tabIndex = 0;
  cell.focus();
}

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
matrix.addEventListener("keydown", (event) => {
  const cell = event.target.closest("td.cell");
  if (!cell || !(event.key in STEPS)) return;
  event.preventDefault();
  const grid = cells();
  const row = grid.findIndex((line) => line.includes(cell));
  const [down, right] = STEPS[event.key];
  const target = grid[row + down]?.[grid[row].indexOf(cell) + right];
  if (target) moveTo(target);
});
// A panel that moves brings other cells under a pointer that rests: that is no pointing.
let pointer = "";
matrix.addEventListener("pointermove", (event) => {
  const cell = event.target.closest("td.cell");
  const place = `${event.screenX} ${event.screenY}`;
  if (cell && place !== pointer && event.pointerType !== "touch") show(cell);
  pointer = place;
});
matrix.addEventListener("focusin", (event) => {
  const cell = event.target.closest("td.cell");
  if (cell) show(cell);
});
document.addEventListener("click", (event) => {
  const cell = event.target.closest("td.cell");
  if (cell) { moveTo(cell); show(cell); } else if (!panel.contains(event.target)) hide();
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
