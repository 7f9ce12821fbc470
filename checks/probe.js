// What the checks ask of an open page. Each function returns a list of sentences "rule: element", or plain facts.
window.probe = (() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const seen = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  };
  const named = (element) => {
    const text = (element.getAttribute("aria-label") || element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
    return `<${element.tagName.toLowerCase()}${element.id ? "#" + element.id : ""}${
      typeof element.className === "string" && element.className ? "." + element.className.trim().split(/\s+/).join(".") : ""
    }> ${text}`.trim();
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).map(Number);
    return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
  };
  const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

  // What holds at any width and in any theme.
  function structure() {
    const found = [];
    if (!document.documentElement.lang) found.push("lang: <html> has none");
    if (!document.title.trim()) found.push("title: <title> is empty");
    const heads = all("h1, h2, h3, h4, h5, h6").filter((head) => head.checkVisibility());
    const top = heads.filter((head) => head.tagName === "H1");
    if (top.length !== 1) found.push(`one-h1: ${top.length} of them`);
    let level = 0;
    for (const head of heads) {
      const own = Number(head.tagName[1]);
      if (own > level + 1) found.push(`headings-in-order: ${named(head)} after level ${level}`);
      level = own;
    }
    for (const image of all("img")) {
      const alt = image.getAttribute("alt");
      if (alt === null || (!alt.trim() && image.closest("article") && !image.closest("[aria-hidden=true]")))
        found.push(`image-alt: ${image.src.slice(0, 100)}`);
      else if (/^[\w./-]+\.(png|svg|jpe?g|webp)$/i.test(alt.trim())) found.push(`image-alt: the name of a file, ${alt}`);
      if (image.complete && !image.naturalWidth) found.push(`image-broken: ${image.src.slice(0, 100)}`);
    }
    for (const link of all("link[rel]"))
      if (/dns-prefetch|preconnect|prefetch|preload|stylesheet|icon|manifest/.test(link.rel) && link.href
          && new URL(link.href).host !== location.host) found.push(`other-host: ${link.outerHTML.slice(0, 120)}`);
    for (const element of all("[tabindex]")) if (element.tabIndex > 0) found.push(`positive-tabindex: ${named(element)}`);
    return found;
  }

  // Where the page leads, and where one may arrive.
  const links = () => all("a[href], area[href]").map((link) => link.href);
  const anchors = () => [...all("[id]").map((element) => element.id), ...all("a[name]").map((element) => element.name)];

  // What must hold at the width of a phone.
  function phone() {
    const found = [];
    const width = document.documentElement.clientWidth;
    const over = document.scrollingElement.scrollWidth - width;
    if (over > 0) {
      const clipped = (element) => {
        for (let up = element.parentElement; up && up !== document.body; up = up.parentElement)
          if (getComputedStyle(up).overflowX !== "visible" || getComputedStyle(up).position === "fixed") return true;
        return false;
      };
      const wide = all("body *").filter((e) => seen(e) && e.getBoundingClientRect().right > width + 1 && !clipped(e));
      found.push(`sideways-scroll: ${over} px; ${wide.slice(-3).map(named).join(" | ") || "?"}`);
    }
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const small = new Set();
    while (walker.nextNode()) {
      const holder = walker.currentNode.parentElement;
      if (!walker.currentNode.textContent.trim() || holder.closest("sup, sub, script, style, noscript, svg") || !seen(holder)) continue;
      const size = parseFloat(getComputedStyle(holder).fontSize);
      if (size < 11) small.add(`text-size: ${size} px, ${named(holder)}`);
    }
    found.push(...[...small].slice(0, 3));
    for (const element of all("button, input, select, textarea, summary, [role=button]", document.querySelector("article") || document.body)) {
      if (!seen(element)) continue;
      const boxes = [element, ...(element.labels || [])].map((one) => one.getBoundingClientRect());
      const [wide, high] = [Math.max(...boxes.map((b) => b.width)), Math.max(...boxes.map((b) => b.height))];
      if (Math.min(wide, high) < 23.5) found.push(`touch-target: ${wide.toFixed(0)} x ${high.toFixed(0)} px, ${named(element)}`);
    }
    return found;
  }

  // In the dark theme a drawing, which is dark on nothing, needs something light behind it (or is opaque itself).
  function dark() {
    const found = [];
    if (luminance(getComputedStyle(document.body).backgroundColor) > 0.3) found.push("dark: the page stays light");
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 16;
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    for (const image of all("article img")) {
      if (!image.naturalWidth || !seen(image)) continue;
      let behind = image;
      while (behind && /rgba\(.*, 0\)|transparent/.test(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
      if (behind && luminance(getComputedStyle(behind).backgroundColor) > 0.7) continue;
      try {
        pen.clearRect(0, 0, 16, 16);
        pen.drawImage(image, 0, 0, 16, 16);
        const pixels = pen.getImageData(0, 0, 16, 16).data;
        if ([0, 15, 240, 255].every((at) => pixels[4 * at + 3] > 250)) continue;
      } catch (error) { /* not to be read from a folder */ }
      found.push(`dark-figure: ${image.src.slice(-60)} on ${behind && getComputedStyle(behind).backgroundColor}`);
    }
    return found;
  }

  // Walking by keyboard: mark what has the focus and how it looks; then say what was never reached, or never showed it.
  const looks = (element) => [element, element.parentElement, element.nextElementSibling].filter(Boolean).map((one) => {
    const style = getComputedStyle(one);
    const outline = style.outlineStyle === "none" || !parseFloat(style.outlineWidth) ? "" : style.outline;
    return [outline, style.boxShadow, style.backgroundColor, style.borderColor, style.textDecoration, style.color].join();
  }).join(";");
  const reached = new Map();
  function step() {
    const element = document.activeElement;
    if (!element || element === document.body) return reached.size > 0;
    if (reached.has(element)) return true;
    reached.set(element, looks(element));
    return false;
  }
  function walked() {
    document.activeElement.blur();
    const found = [];
    const radios = new Set([...reached.keys()].filter((one) => one.type === "radio").map((one) => one.name));
    for (const element of all(FOCUSABLE)) {
      if (element.tabIndex < 0 || element.disabled || !seen(element) || element.closest("[inert]")) continue;
      if (element.type === "radio" && radios.has(element.name)) continue;
      if (!reached.has(element)) found.push(`keyboard: never reached ${named(element)}`);
    }
    for (const element of all("body *")) {
      const style = getComputedStyle(element);
      const scrolls = (/auto|scroll/.test(style.overflowX) && element.scrollWidth > element.clientWidth + 2);
      if (scrolls && seen(element) && !reached.has(element) && !element.querySelector("a[href], button, input, select"))
        found.push(`keyboard: cannot scroll ${named(element)}`);
    }
    for (const [element, before] of reached) {
      if (!element.isConnected || !seen(element)) continue;
      if (looks(element) === before) found.push(`focus-visible: nothing shows the focus of ${named(element)}`);
    }
    return found;
  }

  const paint = () => (performance.getEntriesByName("first-contentful-paint")[0] || {}).startTime;
  return { structure, links, anchors, phone, dark, step, walked, paint };
})();
