import type { Page } from 'playwright-core';

/** Runs in the browser. */
const SCRIPT = `(() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgba = (colour) => {
      if (canvas === null) throw new Error('no canvas');
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = ([r = 0, g = 0, b = 0]) => {
      const [x = 0, y = 0, z = 0] = [r, g, b].map((part) => {
        const share = part / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const behind = (element) => {
      for (let at = element; at !== null; at = at.parentElement) {
        const colour = rgba(getComputedStyle(at).backgroundColor);
        if ((colour[3] ?? 0) === 255) return colour;
      }
      return [255, 255, 255, 255];
    };
    const faults = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const element = node.parentElement;
      const text = node.textContent.trim();
      if (element === null || text === '' || element.closest('script, style, title, desc, .hidden') !== null) continue;
      if (!element.checkVisibility()) continue;
      const style = getComputedStyle(element);
      const colour = rgba(element instanceof SVGElement ? style.fill : style.color);
      const [one, other] = [light(colour), light(behind(element))];
      const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      if (contrast < 4.5) faults.push(contrast.toFixed(2) + ': ' + text.slice(0, 40) + ' <' + element.tagName + '>');
    }
    return faults;
})()`;

/** Every text on the page whose contrast with what lies behind it is below 4.5 (WCAG AA), as one line each. */
export function contrastFaults(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(SCRIPT);
}
