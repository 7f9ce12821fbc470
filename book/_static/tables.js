// Tables of the chapters are sorted by a click, or Enter, on a column's head; numbers by size, texts by alphabet.
document.addEventListener("DOMContentLoaded", () => {
  const value = (row, column) => row.cells[column].textContent.trim();
  const number = (text) => parseFloat(text.replace(/[,%+ ]/g, "").replace("\u2212", "-"));
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
        const missing = ([text]) => text === "\u2013" || text === "";
        rows.sort((a, b) => {
          if (missing(a) || missing(b)) return missing(a) - missing(b); // what is missing stays at the end
          const order = numeric ? number(a[0]) - number(b[0]) : a[0].localeCompare(b[0], "en", { numeric: true });
          return down ? -order : order;
        });
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }
});
