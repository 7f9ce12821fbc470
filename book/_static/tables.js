// Tables of the chapters are sorted by a click, or Enter, on a column's head: numbers by size, texts by alphabet. From
// eight rows on a field leaves only the rows with what is typed there. Whatever scrolls sideways is reached by Tab.
document.addEventListener("DOMContentLoaded", () => {
  const value = (row, column) => row.cells[column].textContent.trim();
  const number = (text) => parseFloat((text.match(/[-\u2212]?[\d.][\d.,]*(e[-\u2212+]?\d+)?/i) || [""])[0].replace(/,/g, "").replace(/\u2212/g, "-"));

  function sortable(table) {
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
        const key = (text) => (numeric ? number(text) : text);
        const missing = ([one]) => one === "" || one === "\u2013" || Number.isNaN(one);
        const rows = [...table.tBodies[0].rows].map((row) => [key(value(row, column)), row]);
        rows.sort((a, b) => {
          if (missing(a) || missing(b)) return missing(a) - missing(b); // what is missing stays at the end
          const order = numeric ? a[0] - b[0] : a[0].localeCompare(b[0], "en", { numeric: true });
          return down ? -order : order;
        });
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }

  function filterable(region) {
    const rows = [...region.querySelector("tbody").rows];
    const bar = document.createElement("div");
    const label = document.createElement("label");
    const field = document.createElement("input");
    const said = document.createElement("span");
    bar.className = "reef-filter";
    field.type = "search";
    field.id = `${region.id}-filter`;
    field.setAttribute("aria-controls", region.id);
    label.htmlFor = field.id;
    label.textContent = "Filter the rows";
    said.setAttribute("role", "status");
    const filter = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      const left = rows.filter((row) => !row.hidden).length;
      said.textContent = left ? `${left} of ${rows.length} rows` : `No row has \u201c${field.value.trim()}\u201d.`;
      if (!words.length) said.textContent = `${rows.length} rows`;
    };
    field.addEventListener("input", filter);
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !field.value) return;
      event.preventDefault();
      field.value = "";
      filter();
    });
    filter();
    bar.append(label, field, said);
    region.before(bar);
  }

  const names = new Map();
  for (const region of document.querySelectorAll(".reef-table")) {
    const name = region.getAttribute("aria-label");
    names.set(name, (names.get(name) || 0) + 1);
    if (names.get(name) > 1) region.setAttribute("aria-label", `${name} (${names.get(name)})`);
    const table = region.querySelector("table");
    if (!table || !table.tHead || !table.tBodies.length) continue;
    sortable(table);
    if (table.tBodies[0].rows.length >= 8) filterable(region);
  }

  // Tables of plain text: Tab reaches those that are wider than the page.
  let count = 0;
  for (const table of document.querySelectorAll("article table:not(.reef-table table)")) {
    const box = table.closest(".pst-scrollable-table-container") || table;
    if (box.scrollWidth <= box.clientWidth) continue;
    box.tabIndex = 0;
    if (box === table) continue; // it says by itself that it is a table
    count += 1;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", table.caption ? table.caption.textContent.trim() : `Table ${count} of the text`);
  }
});
