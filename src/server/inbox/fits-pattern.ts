/** True if the text is the pattern, in which a star stands for any text. Linear, whatever the text is. */
export function fitsPattern(pattern: string, text: string): boolean {
  const [first = '', ...between] = pattern.split('*');
  const last = between.pop();
  if (last === undefined) return text === pattern;
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const part of between) {
    const found = text.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}
