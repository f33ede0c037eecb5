/** Values of one column each, by their source text: what a column of the type can hold, and what makes it another. */
const COLUMNS: Readonly<Record<string, readonly string[]>> = {
  flag: ['true', 'false', 'null'],
  whole: ['0', '-0', '12', '-9007199254740993', '9223372036854775807', '1e2', '3.0', 'null'],
  real: ['0.5', '1.10', '-1.5e-7', '1e300', '5e-324', '3', '98331783783160.625', '0.30000000000000004'],
  digits: ['0.1234567890123456789012345678901234567890', '1.10', '1e400', '12', '-0.5', '1E2', '0.000000015', '1e-400'],
  huge: ['12345678901234567890', '1', '2.50', '-0', '12345678901234567890.10'],
  day: ['"2024-02-29"', '"0001-01-01"', '"9999-12-31"', 'null'],
  at: [
    '"2024-05-06T07:08:09Z"',
    '"2024-05-31T07:08:09.5Z"',
    '"2024-05-06t07:08z"',
    '"2024-05-06 07:08:09.123456789"',
    '"2024-05-06T07:08:09.0009+02:00"',
    '"2024-05-06T23:08:09-0930"',
    '"2024-05-06T07:08+23"',
    '"2024-02-29"',
    '"0001-01-01T00:00:00Z"',
    '"9999-12-31T23:59:59.999Z"',
    '"2024-12-31T23:59:59.9996-01:00"',
  ],
  almost: ['"2023-02-29"', '"2024-05-06T24:00:00Z"', '"2024-05-06T07:08:60Z"', '"2024-13-01T00:00:00Z"'],
  words: [
    '"plain"',
    String.raw`"quote \" back \\ slash \/ \n \u00e9 \ud83d\ude00 end"`,
    String.raw`"nul \u0000 and \\u0000"`,
    String.raw`"half \ud83d x \ude00 and \ud83d\ud83d\ude00\ude00"`,
    '""',
    '"  "',
    '"é 😀 ￾"',
  ],
  mixed: ['"text"', '1.10', 'true', '-0', '1e21', '1e-7', '9007199254740993', '123456.50', '0.00001', '1.5E3', 'false'],
  part: ['{"a":1}', '[1,2]', '"text"', '3', '{"a":{"b":null}}', '{}', 'null'],
  'with.dot': ['"dotted"', '"again"'],
  'qu"ote': ['"quoted"'],
  'back\\slash': ['"slashed"'],
  Größe: ['5', '6.5'],
  'a*b[c]': ['"globbed"'],
  "it's": ['"apostrophe"'],
  'nul\0name': ['"cut"', '"off"'],
};

/** Records whose columns have each type, and one with keys that are escaped. */
export function typedRecords(): string[] {
  const most = Math.max(...Object.values(COLUMNS).map(({ length }) => length));
  const rows = Array.from({ length: most }, (_, at) => {
    const fields = Object.entries(COLUMNS).map(
      ([key, values]) => `${JSON.stringify(key)}: ${values[at % values.length]}`,
    );
    return `{ "id": "r${at}", ${fields.join(' , ')}, "deep": {"id": "x${at}", "er": {"at": "2024-01-0${(at % 9) + 1}T00:00:00+01:00", "n": ${at}}} }`;
  });
  return [
    ...rows,
    String.raw`{"id":"escaped","Gr\u00f6\u00dfe":7.25,"with.dot":"d","\u0061*b[c]":"e"}`,
    '{"id":"in words","words":"\\"words\\" and \\"words\\"","digits":0.1234567890123456789012345,"deep":{"words":1,"digits":2}}',
    '{"id":"nothing"}',
    '{"id":"lists","tags":["a",null,"b"],"people":[{"name":"x"}],"deep":{"er":{"list":[1]}}}',
  ];
}
