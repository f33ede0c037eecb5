/** One link-value of a `Link` header. */
interface HeaderLink {
  uri: string;
  /** Relation types, lower case. */
  rels: string[];
}

const TARGET = /[\s,]*<([^>]*)>/y;
const PARAM = /\s*;\s*([^\s=;,"<>]*)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?/y;
const END = /\s*(?:,[\s,]*|$)/y;

/**
 * Reads `Link` headers (RFC 8288, appendix B.2): several headers, several relations in one link, quoted commas and
 * semicolons, parameters without a value, white space anywhere. Returns null for what cannot be read as a whole:
 * half a header must never look like "no next page". (`http-link-header` 1.1.4 loses links after ` ,` and after a
 * parameter without a value, without saying so.)
 */
export function parseLinkHeader(header: string | readonly string[] | undefined): HeaderLink[] | null {
  const text = (typeof header === 'string' ? header : (header ?? []).join(', ')).trim();
  const links: HeaderLink[] = [];
  let at = 0;
  while (at < text.length) {
    const target = matchAt(TARGET, text, at);
    if (target === null) return /^[\s,]*$/.test(text.slice(at)) ? links : null;
    const params = readParams(text, at + target[0].length);
    const end = matchAt(END, text, params.at);
    if (end === null) return null;
    links.push({ uri: (target[1] ?? '').trim(), rels: params.rels });
    at = params.at + end[0].length;
  }
  return links;
}

function readParams(text: string, start: number): { rels: string[]; at: number } {
  let at = start;
  let rels: string[] | null = null;
  for (let param = matchAt(PARAM, text, at); param !== null; param = matchAt(PARAM, text, at)) {
    at += param[0].length;
    if (rels === null && param[1]?.toLowerCase() === 'rel') rels = relationsIn(param[2] ?? param[3] ?? '');
  }
  return { rels: rels ?? [], at };
}

function relationsIn(value: string): string[] {
  return value.replace(/\\(.)/g, '$1').toLowerCase().split(/\s+/).filter(Boolean);
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}
