import { expect, it } from 'vitest';
import { fileName } from '../../../src/cli/files/get-file.ts';

const named = (record_id: string, type: string | null, position = 0): string =>
  fileName({ record_id, field: 'file', position, type });

it.each([
  ['img_7', 'image/jpeg', 'img_7-file.jpg'],
  ['img_7', 'image/png', 'img_7-file.png'],
  ['7', 'image/svg+xml', '7-file.svg'],
  ['7', 'application/vnd.oasis.opendocument.text', '7-file.bin'],
  ['7', null, '7-file.bin'],
  ['../../etc/passwd', 'image/png', '__.._etc_passwd-file.png'],
  ['/etc/passwd', 'image/png', '_etc_passwd-file.png'],
  ['.hidden', 'image/png', '_hidden-file.png'],
  ['-rf', 'image/png', '_rf-file.png'],
  ['a\u0000b\nc\\d:e', 'image/png', 'a_b_c_d_e-file.png'],
  ['größe', 'image/png', 'größe-file.png'],
  ['x'.repeat(500), 'image/png', `${'x'.repeat(100)}-file.png`],
  ['', 'image/png', '-file.png'],
])('a file of the record %j of type %s is named %s', (id, type, name) => {
  expect(named(id, type)).toBe(name);
});

it('tells the files of a list apart', () => {
  expect(named('7', 'image/png', 3)).toBe('7-file-3.png');
});
