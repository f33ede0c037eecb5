import type { Draw, Tricks } from './answer.ts';
import { FIELDS } from './hostile-fields.ts';
import { oddUrl } from './hostile-headers.ts';

/** A trick gets the text that would be right, and gives what is sent in its place. */
export type BodyTrick = (text: string) => Buffer | string;

/** Bodies that are no answer at all, or not quite. */
export const BODIES: Tricks<BodyTrick> = {
  ...FIELDS,
  'body: empty': ({ random }) => always(random.pick(['', ' ', '\n\n', '\0'])),
  'body: another value': ({ random }) =>
    always(random.pick(['null', 'true', '0', '""', '[]', '{}', '[[]]', '[null]', '{"data":null}', '{"data":{}}'])),
  'body: another document': ({ random, credential }) =>
    always(
      random.pick([
        '<!doctype html><title>Sign in</title><form></form>',
        `<?xml version="1.0"?><error>${credential}</error>`,
        'Internal Server Error',
        'callback({"data":[]})',
        '{"a":1}\n{"a":2}',
        '// nothing\n{}',
        "{'data':[]}",
        '{"data":[],}',
        'undefined',
        'NaN',
      ]),
    ),
  'body: an error': ({ random, credential }) =>
    always(
      random.pick([
        `{"error":{"message":"${credential}"}}`,
        '{"errors":[{"message":"too many requests"}]}',
        '{"error":"rate limit exceeded"}',
        `{"error":"${'\\\\'.repeat(4_000)}"}`,
        `{"message":"${'\\u0000'.repeat(3_000)}"}`,
      ]),
    ),
  'body: cut off':
    ({ random }) =>
    (text) =>
      text.slice(0, Math.floor(text.length * random.next())),
  'body: twice': () => (text) => text + text,
  'body: something behind it':
    ({ random }) =>
    (text) =>
      text + random.pick(['x', '\0', ']', '}', '\u00a0', ' '.repeat(1e5)]),
  'body: a byte order mark':
    ({ random }) =>
    (text) =>
      `${'\ufeff'.repeat(random.pick([1, 1, 2]))}${text}`,
  'body: another charset':
    ({ random }) =>
    (text) =>
      random.pick([
        Buffer.from(text, 'utf16le'),
        Buffer.from(`\ufeff${text}`, 'utf16le'),
        Buffer.from(text.replaceAll(/[aeiou]/g, '\u00e9'), 'latin1'),
        Buffer.concat([Buffer.from(text.slice(0, -2)), Buffer.from([0xff, 0xc3, 0x28]), Buffer.from(text.slice(-2))]),
      ]),
  'body: a control character':
    ({ random }) =>
    (text) =>
      text.replace('Record', `Rec${random.pick(['\0', '\u0001', '\n', '\u007f', '\u2028'])}ord`),
  'body: deep': ({ random }) => {
    const depth = random.pick([30, 500, 6_000, 200_000]);
    const [open, close] = random.pick([
      ['[', ']'],
      ['{"a":', '}'],
      ['[{"a":', '}]'],
    ] as const);
    const deep = open.repeat(depth) + '1' + close.repeat(depth);
    return random.chance(0.3) ? always(deep) : (text) => text.replace('{"id":', `{"deep":${deep},"id":`);
  },
  'body: keys twice':
    ({ random }) =>
    (text) =>
      random.pick([
        text.replace('"title":', '"id":"r1","title":'),
        text.replace('"data":', '"data":[],"data":'),
        text.replace('{"id":', `{${'"x":1,'.repeat(3_000)}"id":`),
        text.replace('"total":', '"total":1,"total":'),
      ]),
  'body: __proto__':
    ({ random }) =>
    (text) =>
      random.pick([
        text.replace('{"id":', '{"__proto__":{"id":"x"},"constructor":{"prototype":1},"id":'),
        text.replace('"data":', '"__proto__":'),
        text.replace('"title":', '"__proto__":'),
        text.replace('"author":', '"toString":1,"hasOwnProperty":2,"author":'),
      ]),
  'body: total':
    ({ random }) =>
    (text) =>
      text.replace(
        /"total":\d+/,
        `"total":${random.pick(['-1', '0', '1', '99', '1e308', '9007199254740993', '"x"', 'null', '{}', '[]', '1.5', 'true'])}`,
      ),
  'body: next': (draw) => (text) => {
    const next = draw.random.chance(0.5) ? JSON.stringify(oddUrl(draw)) : oddCursor(draw);
    return text.replace(/"(next_cursor|next)":("[^"]*"|null)/, `"$1":${next.replaceAll('$', '$$$$')}`);
  },
  'body: no records':
    ({ random }) =>
    (text) =>
      text.replace('"data":[', random.pick(['"items":[', '"data":[[', '"data":"', '"data":[null,'])),
  'body: many records':
    ({ random }) =>
    (text) => {
      const many = Array.from({ length: random.pick([40, 200]) }, (_, at) => `{"id":"m${at}","n":${at}},`);
      return text.replace('"data":[', `"data":[${many.join('')}`);
    },
  'body: many empty lists': ({ random }) =>
    always(`{"data":[${`${random.pick(['[]', '{}', '""', '0'])},`.repeat(2e6)}0]}`),
  'body: many long numbers': () => always(`{"data":[${`${'1'.repeat(40)},`.repeat(8e4)}0]}`),
  'body: one long number':
    ({ random }) =>
    (text) =>
      text.replace('"count":', `"long":${random.pick(['', '-', '0.'])}${'7'.repeat(2e6)},"count":`),
};

function always(body: Buffer | string): BodyTrick {
  return () => body;
}

function oddCursor({ random, asked, credential }: Draw): string {
  const value: unknown = random.pick<unknown>([
    asked.url.searchParams.get('cursor') ?? 'c5',
    'c999999',
    0,
    -1,
    12.5,
    true,
    [],
    ['c5'],
    { after: 'c5' },
    '',
    ' ',
    '&limit=1&cursor=c5#',
    '%00%ff',
    'line\nbreak',
    '\ud800',
    '__proto__',
    'x'.repeat(7_000),
    'x'.repeat(90_000),
    `${'c'.repeat(40)}${credential}`,
    credential,
  ]);
  return random.chance(0.1) ? '1e400' : JSON.stringify(value);
}
