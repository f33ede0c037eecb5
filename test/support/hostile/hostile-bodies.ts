import { jsonSuite, naughtyStrings } from '../corpora.ts';
import type { Draw, Tricks } from './transports.ts';
import { oddUrl } from './hostile-headers.ts';

/** What the JSON test suite has, good and bad: some of it is no UTF-8. */
const SUITE = [...jsonSuite('test_parsing'), ...jsonSuite('test_transform')];
/** JSON texts of values that a field may hold. */
const VALUES = [
  ...SUITE.filter(([name]) => !/^[ni]_/.test(name)).map(([, bytes]) => bytes.toString()),
  '1e400',
  '-1e400',
  `"${'y'.repeat(60_000)}"`,
  `"${'\\\\'.repeat(8_000)}"`,
];
const OWN = '_synced_at _deleted_at _version rowid ID Title [] a.b constructor x__v_text'.split(' ');
const NAMES = [...naughtyStrings(), ...OWN, 'a'.repeat(300), '\ud800'];
const TIMES = [
  ['1e20', '-1', '1767225600', '"9999-12-31T23:59:59Z"', '"+275760-09-13T00:00:00Z"', '"-271821-04-20T00:00:00Z"'],
  ['"2026-02-30T25:61:61Z"', '"0000-00-00 00:00:00"', '"2025-05-01T06:00:00.123456789+14:00"'],
].flat();
const IDS = [
  ...[...NAMES, 'r1', 'R1', '../../admin', '%2e%2e/', 'a/b?c=d#e', 'line\nbreak', '__proto__'].map((id) =>
    JSON.stringify(id),
  ),
  ...['i'.repeat(3_000), 'i'.repeat(200_000)].map((id) => JSON.stringify(id)),
];

/** Records that are not what they were, in a body that is one. */
const FIELDS: Tricks<(text: string) => string> = {
  'field: another value': (draw) => (text) =>
    edited(text, draw, /"(title|count|part|isShown|tags)":("[^"]*"|[\d.-]+|true|false|\[[^\]]*\])/g, (name) => [
      name,
      draw.random.pick(VALUES),
    ]),
  'field: another name': (draw) => (text) =>
    edited(text, draw, /"(title|part|isShown)":("[^"]*"|[\d.]+|true|false)/g, (_, value) => [
      draw.random.pick(NAMES),
      value,
    ]),
  'field: id': (draw) => (text) =>
    edited(text, draw, /"(id)":("[^"]*")/g, (name) => [name, draw.random.pick(draw.random.chance(0.3) ? VALUES : IDS)]),
  'field: time': (draw) => (text) =>
    edited(text, draw, /"(updated_at)":("[^"]*")/g, (name) => [
      name,
      draw.random.pick(draw.random.chance(0.3) ? VALUES : TIMES),
    ]),
  'field: left out': (draw) => (text) =>
    edited(text, draw, /"(id|updated_at|title|count)":("[^"]*"|[\d.-]+)/g, () => ['x', '1']),
  'field: very many':
    ({ random }) =>
    (text) => {
      const prefix = random.pick(['w', 'W', 'é', '']);
      const many = Array.from({ length: random.pick([150, 2_500]) }, (_, at) => `"${prefix}${at}":${at},`);
      return text.replace('{"id":', `{${many.join('')}"id":`);
    },
  'field: long lists':
    ({ random }) =>
    (text) =>
      text.replace(
        /"tags":\[[^\]]*\]/,
        `"tags":[${Array.from({ length: random.pick([50, 2_000]) }, (_, at) => `{"t":${at}}`).join(',')}]`,
      ),
};

/** Changes some of the members that fit. */
function edited(
  text: string,
  { random }: Draw,
  pattern: RegExp,
  change: (name: string, value: string) => readonly [name: string, value: string],
): string {
  const often = random.pick([0.1, 0.5, 1]);
  return text.replace(pattern, (whole, name: string, value: string) => {
    if (!random.chance(often)) return whole;
    const [to, of] = change(name, value);
    return `${JSON.stringify(to)}:${of}`;
  });
}

/** A trick gets the text that would be right, and gives what is sent in its place. */
type BodyTrick = (text: string) => Buffer | string;

/** Bodies that are no answer at all, or not quite. */
export const BODIES: Tricks<BodyTrick> = {
  ...FIELDS,
  'body: empty': ({ random }) => always(random.pick(['', ' ', '\n\n', '\0'])),
  'body: another document': ({ random, credential }) =>
    always(
      random.pick([
        ...SUITE.map(([, bytes]) => bytes),
        '{"data":{}}',
        '<!doctype html><title>Sign in</title><form></form>',
        `<?xml version="1.0"?><error>${credential}</error>`,
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
  'body: another charset':
    ({ random }) =>
    (text) =>
      random.pick([
        Buffer.from(text, 'utf16le'),
        Buffer.from(`\ufeff${text}`, 'utf16le'),
        Buffer.from(text.replaceAll(/[aeiou]/g, '\u00e9'), 'latin1'),
        Buffer.concat([Buffer.from(text.slice(0, -2)), Buffer.from([0xff, 0xc3, 0x28]), Buffer.from(text.slice(-2))]),
      ]),
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
