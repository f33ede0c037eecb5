/** What a template may be filled with, by its name in braces. */
export const PLACEHOLDERS = {
  status: 'firing, over or test',
  title: 'the message in one line',
  text: 'the whole message; several lines',
  count: 'how many things it tells of',
  kinds: 'failed, overdue: which kinds of things',
  sources: 'blog, shop: which sources',
  since: 'when the first of them began; ISO text in UTC',
  at: 'when the message was made; ISO text in UTC',
  url: 'the page, where serve.public_url is set; else empty',
} as const;

export type Placeholder = keyof typeof PLACEHOLDERS;

/** A name in braces; the braces of JSON never look like this. */
const IN_BRACES = /\{([a-z_]+)\}/g;

/** How a value is written into a body, by the type of the body. */
const WRITTEN: Readonly<Record<string, (value: string) => string>> = {
  'application/json': (value) => JSON.stringify(value).slice(1, -1),
  'application/x-www-form-urlencoded': encodeURIComponent,
};

/** The template with its placeholders filled in by `valueOf`, so that no value can end the text that it stands in. */
export function filledBody(template: string, contentType: string, valueOf: (name: Placeholder) => string): string {
  const [type = ''] = contentType.toLowerCase().split(';', 1);
  const write = /[/+]json$/.test(type.trim()) ? WRITTEN['application/json'] : WRITTEN[type.trim()];
  return template.replaceAll(IN_BRACES, (all, name: string) =>
    isPlaceholder(name) ? (write ?? ((value: string) => value))(valueOf(name)) : all,
  );
}

function isPlaceholder(name: string): name is Placeholder {
  return Object.hasOwn(PLACEHOLDERS, name);
}

/** The type of a body whose headers do not say it. */
export const JSON_TYPE = 'application/json';

/** What the header says of the body's type. */
export function contentTypeOf(headers: Readonly<Record<string, string>>): string {
  const [, type] = Object.entries(headers).find(([name]) => name.toLowerCase() === 'content-type') ?? [];
  return type ?? JSON_TYPE;
}

/** Finds what cannot be filled in, and a template of JSON that is none once it is filled in; null for nothing. */
export function bodyFault(template: string, headers: Readonly<Record<string, string>>): string | null {
  const unknown = Array.from(template.matchAll(IN_BRACES), ([, name = '']) => name).find(
    (name) => !isPlaceholder(name),
  );
  const names = Object.keys(PLACEHOLDERS);
  if (unknown !== undefined) return `expected only the placeholders ${names.join(', ')} in braces, got {${unknown}}`;
  const type = contentTypeOf(headers);
  if (!/json/i.test(type)) return null;
  try {
    JSON.parse(filledBody(template, type, (name) => (name === 'count' ? '7' : '"\\\n')));
    return null;
  } catch {
    return 'expected JSON once its placeholders are filled in; put texts in quotes, such as {"text": "{title}"}';
  }
}
