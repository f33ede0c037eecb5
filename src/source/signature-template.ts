/** The tokens of a template of signed content, in braces; those with `named` are followed by a colon and a name. */
const TOKENS = {
  /** The delivery's id, as text. */
  id: { named: false },
  /** The timestamp, as it was sent. */
  ts: { named: false },
  /** The raw bytes of the body. */
  body: { named: false },
  /** The body as a JSON string, quotes included. */
  body_json: { named: false },
  /** SHA-256 of the body in hexadecimal. */
  body_sha256: { named: false },
  method: { named: false },
  /** The public URL with the query of this delivery. */
  url: { named: false },
  /** Path and query. */
  path: { named: false },
  /** Host and port of the public URL. */
  host: { named: false },
  /** Names and values of a form, sorted by name; nothing if the body is no form. */
  form_sorted: { named: false },
  /** `name:value;name:value` of the headers that the delivery lists as signed. */
  signed_headers: { named: false },
  /** The secret itself, for a plain hash. */
  secret: { named: false },
  header: { named: true },
  /** A part of the signature header. */
  part: { named: true },
  /** The same as a JSON string. */
  part_json: { named: true },
} as const;

export type TokenName = keyof typeof TOKENS;

/** A literal text, or a token with the name after its colon ('' if it has none). */
export type TemplateSegment = string | { readonly token: TokenName; readonly name: string };

const PIECE = /\{\{|\}\}|\{(?<token>[a-z0-9_]+)(?::(?<name>[\w-]+))?\}|[^{}]+|[{}]/g;

/** Parses `{id}.{ts}.{body}`; returns its segments, or the fault. `{{` and `}}` are literal braces. */
export function parseTemplate(text: string): { segments: TemplateSegment[] } | { fault: string } {
  const segments: TemplateSegment[] = [];
  for (const { 0: piece, groups } of text.matchAll(PIECE)) {
    if (piece === '{' || piece === '}') return { fault: 'expected {{ and }} for braces that are meant as such' };
    const token = groups?.['token'];
    const name = groups?.['name'] ?? '';
    if (token === undefined) segments.push(piece === '{{' || piece === '}}' ? piece.slice(1) : piece);
    else if (!isToken(token)) return { fault: `expected tokens out of ${tokenList()}` };
    else if (TOKENS[token].named !== (name !== '')) return { fault: `expected {${written(token)}}` };
    else segments.push({ token, name: token === 'header' ? name.toLowerCase() : name });
  }
  return { segments };
}

/** True if the template holds one of these tokens, under any name. */
export function hasToken(segments: readonly TemplateSegment[], ...tokens: readonly TokenName[]): boolean {
  return segments.some((segment) => typeof segment !== 'string' && tokens.includes(segment.token));
}

function isToken(word: string): word is TokenName {
  return Object.hasOwn(TOKENS, word);
}

function written(token: TokenName): string {
  return TOKENS[token].named ? `${token}:<name>` : token;
}

function tokenList(): string {
  return Object.keys(TOKENS)
    .filter(isToken)
    .map((token) => `{${written(token)}}`)
    .join(' ');
}
