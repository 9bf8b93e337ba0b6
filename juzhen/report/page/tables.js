// Plain tables: a heading sorts downwards, then upwards, then puts rows back as they were. What is missing stays last.
for (const table of document.querySelectorAll("table.sortable")) {
  const rows = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => head.querySelector("button").addEventListener("click", () => {
    const now = head.getAttribute("aria-sort");
    const next = now === "descending" ? "ascending" : now === "ascending" ? null : "descending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    if (next) head.setAttribute("aria-sort", next);
    const keys = new Map(rows.map((row) => [row, row.cells[place].dataset.sort]));
    const numeric = rows.every((row) => keys.get(row) === "" || !Number.isNaN(Number(keys.get(row))));
    const compare = (a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      const up = numeric ? Number(x) - Number(y) : x.localeCompare(y);
      return next === "ascending" ? up : -up;
    };
    table.tBodies[0].append(...(next ? [...rows].sort(compare) : rows));
  }));
}
// A link to a table opens it.
function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) target.open = true;
}
addEventListener("hashchange", openTarget);
openTarget();
