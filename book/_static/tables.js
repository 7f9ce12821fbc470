// Tables of the chapters are sorted by a click, or Enter, on a column's head; numbers by size, texts by alphabet.
// Tall ones have a field that leaves only the rows with what is typed there.
document.addEventListener("DOMContentLoaded", () => {
  const value = (row, column) => row.cells[column].textContent.trim();
  const number = (text) => parseFloat(text.replace(/[,%+~<>\u2264\u2265 ]/g, "").replace("\u2212", "-"));
  for (const table of document.querySelectorAll(".reef-table table")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.title = "Sort by this column";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const numeric = head.classList.contains("number");
        const rows = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
        const missing = ([text]) => text.startsWith("\u2013") || text === "";
        rows.sort((a, b) => {
          if (missing(a) || missing(b)) return missing(a) - missing(b); // what is missing stays at the end
          const order = numeric ? number(a[0]) - number(b[0]) : a[0].localeCompare(b[0], "en", { numeric: true });
          return down ? -order : order;
        });
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }
  for (const region of document.querySelectorAll(".reef-table.tall")) {
    const field = document.createElement("input");
    field.type = "search";
    field.placeholder = "Filter the rows of this table";
    field.setAttribute("aria-label", field.placeholder);
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/);
      for (const row of region.querySelector("tbody").rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
    region.before(field);
  }
});
