import type { Draw, Tricks } from './answer.ts';

const NAMES = [
  '',
  ' ',
  '"',
  "'; DROP TABLE content; --",
  'a'.repeat(300),
  'ID',
  'Title',
  'title ',
  '_synced_at',
  '_deleted_at',
  '_version',
  'rowid',
  'select',
  'a.b',
  'a[]',
  '[]',
  'a\u0000b',
  '\ud800',
  '😀',
  'é',
  'constructor',
  'x__v_text',
];

/** JSON texts of values that a field may hold. */
const VALUES = [
  'null',
  'true',
  '""',
  '"x"',
  '0',
  '-0',
  '1e400',
  '-1e400',
  '1e-400',
  '0.1000000000000000055511151231257827',
  '123456789012345678901234567890',
  '9007199254740993',
  '1E+2',
  '[]',
  '{}',
  '[[]]',
  '[[1],[2,[3]]]',
  '[1,"a",null,{"b":[]}]',
  '{"a":{"b":{"c":{"d":{"e":1}}}}}',
  '{"":{"":""}}',
  '"\\u0000"',
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"2026-01-01"',
  '"2026-01-01T00:00:00Z"',
  '"9999-99-99"',
  `"${'y'.repeat(60_000)}"`,
  `"${'\\\\'.repeat(8_000)}"`,
];

const TIMES = [
  'null',
  '""',
  '"x"',
  '0',
  '1e20',
  '-1',
  '1767225600',
  '"9999-12-31T23:59:59Z"',
  '"+275760-09-13T00:00:00Z"',
  '"-271821-04-20T00:00:00Z"',
  '"2026-02-30T25:61:61Z"',
  '"0000-00-00 00:00:00"',
  '"2025-05-01T06:00:00.123456789+14:00"',
  '{}',
  '[]',
  'true',
];

const IDS = [
  'null',
  '""',
  '" "',
  '{}',
  '[]',
  'true',
  '0',
  '-1',
  '1.5',
  '1e400',
  '9007199254740993',
  '"r1"',
  '"R1"',
  '"r1\\u0000"',
  '"\\ud800"',
  '"../../admin"',
  '"%2e%2e/"',
  '"a/b?c=d#e"',
  '"line\\nbreak"',
  '"__proto__"',
  '"constructor"',
  '"😀"',
  `"${'i'.repeat(3_000)}"`,
  `"${'i'.repeat(200_000)}"`,
];

/** Records that are not what they were, in a body that is one. */
export const FIELDS: Tricks<(text: string) => string> = {
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
  'field: id': (draw) => (text) => edited(text, draw, /"(id)":("[^"]*")/g, (name) => [name, draw.random.pick(IDS)]),
  'field: time': (draw) => (text) =>
    edited(text, draw, /"(updated_at)":("[^"]*")/g, (name) => [name, draw.random.pick(TIMES)]),
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
