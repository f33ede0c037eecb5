import type { Page } from 'playwright-core';

/** Runs in the browser. */
const SCRIPT = `(() => {
  const faults = [];
  const over = document.documentElement.scrollWidth - innerWidth;
  if (over > 0) faults.push('the page is ' + over + ' px too wide');
  const cutOnPurpose = '.what div, .sources th, .wide, pre, .hidden';
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement, text = node.textContent.trim();
    if (text === '' || element.closest('script, style, svg, option, .hidden, noscript') !== null) continue;
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const holder = element.closest(cutOnPurpose)?.getBoundingClientRect();
    for (const rect of range.getClientRects()) {
      const right = Math.min(rect.right, holder?.right ?? Infinity);
      if (rect.width < 2 || right <= rect.left) continue;
      boxes.push({ node, text, left: rect.left, right, top: rect.top, bottom: rect.bottom });
      if (holder === undefined && (rect.left < 0 || rect.right > innerWidth + 0.5)) faults.push('off the screen: ' + text.slice(0, 40));
    }
    for (let at = element; at !== document.body; at = at.parentElement) {
      if (at.matches(cutOnPurpose)) break;
      const style = getComputedStyle(at);
      if (/hidden|clip/.test(style.overflowX + style.overflowY) && (at.scrollWidth > at.clientWidth + 1 || at.scrollHeight > at.clientHeight + 1)) faults.push('cut off: ' + text.slice(0, 40));
    }
  }
  boxes.sort((a, b) => a.top - b.top);
  boxes.forEach((one, index) => {
    for (let next = index + 1; next < boxes.length && boxes[next].top < one.bottom - 3; next += 1) {
      const other = boxes[next];
      const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      if (wide > 2 && one.node !== other.node && Math.min(one.bottom, other.bottom) - other.top > 3) faults.push('one on the other: ' + one.text.slice(0, 30) + ' / ' + other.text.slice(0, 30));
    }
  });
  return faults.slice(0, 10);
})()`;

/** Whatever is too wide, cut off or lies over something else on the page, as one line each. */
export function layoutFaults(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(SCRIPT);
}
