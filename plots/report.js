// Sorts and filters tables. Without it the page is complete, with tables in their original order.
"use strict";

const NUMBER = /^([-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)(?: ([kMG])\b)?/;
const SCALE = { k: 1e3, M: 1e6, G: 1e9 };
const DIRECTIONS = { none: "ascending", ascending: "descending", descending: "none" };
const MANY_ROWS = 8; // tables with fewer rows have no filter
const texts = new Intl.Collator("en", { numeric: true });

// '12.90 k' and '2.11 (2.11-2.12)' are sorted by their first number.
function valueOf(row, column) {
  const text = row.cells[column].textContent.trim();
  const [, digits, unit] = NUMBER.exec(text) ?? [];
  return { text, number: digits ? parseFloat(digits.replaceAll(",", "")) * (SCALE[unit] ?? 1) : NaN };
}

// Texts without a number come last in either direction.
function compare(a, b, sign) {
  if (isNaN(a.number) !== isNaN(b.number)) return isNaN(a.number) ? 1 : -1;
  return sign * (a.number - b.number || texts.compare(a.text, b.text));
}

// Rows stay below their heading. `order` has the original order.
function sort(order, column, direction) {
  const sign = direction === "descending" ? -1 : 1;
  for (const [body, rows] of order) {
    const keyed = rows.map((row) => ({ row, value: valueOf(row, column) }));
    if (direction !== "none") keyed.sort((a, b) => compare(a.value, b.value, sign));
    body.append(...keyed.map(({ row }) => row));
  }
}

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function addSorting(table, order) {
  const heads = [...table.tHead.rows[0].cells];
  for (const [column, head] of heads.entries()) {
    const button = element("button", { type: "button" }, ...head.childNodes);
    head.append(button);
    head.ariaSort = "none";
    button.addEventListener("click", () => {
      const direction = DIRECTIONS[head.ariaSort];
      for (const other of heads) other.ariaSort = "none";
      head.ariaSort = direction;
      sort(order, column, direction);
    });
  }
}

// Shows the rows with all words of the field and the chosen verdict.
function addFilter(table, order) {
  const rows = order.flatMap(([, members]) => members);
  const field = element("input", { type: "search" });
  const count = element("output", {});
  const update = () => {
    const words = field.value.toLowerCase().split(/\s+/);
    const verdict = table.dataset.verdict ?? "";
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const fits = !verdict || row.querySelector(".verdict")?.classList.contains(verdict);
      row.hidden = !fits || !words.every((word) => text.includes(word));
    }
    for (const [body, members] of order) body.hidden = members.every((row) => row.hidden);
    count.value = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
  };
  field.addEventListener("input", update);
  table.addEventListener("verdict", update);
  table.parentElement.before(element("p", { className: "filter" }, element("label", {}, "Filter ", field), " ", count));
}

for (const table of document.querySelectorAll(".table > table")) {
  const order = [...table.tBodies].map((body) => [body, [...body.rows].filter((row) => row.cells.length > 1)]);
  addSorting(table, order);
  if (order.flatMap(([, rows]) => rows).length >= MANY_ROWS) addFilter(table, order);
}

// Buttons are useless on paper.
window.addEventListener("beforeprint", () => {
  for (const closed of document.querySelectorAll("details:not([open])")) closed.open = true;
});

for (const button of document.querySelectorAll("[data-verdict]")) {
  button.addEventListener("click", () => {
    const pressed = button.ariaPressed !== "true";
    for (const other of button.closest("ul").querySelectorAll("button")) other.ariaPressed = "false";
    button.ariaPressed = String(pressed);
    const table = button.closest("section").querySelector(".rows table");
    table.closest("details").open = true;
    table.dataset.verdict = pressed ? button.dataset.verdict : "";
    table.dispatchEvent(new Event("verdict"));
  });
}
