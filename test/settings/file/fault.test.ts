import { expect, it } from 'vitest';
import { renderFaults, settingsError, type Fault } from '../../../src/settings/file/fault.ts';

const fault = (file: string, line: number, message: string, field = ''): Fault => {
  return { file, line, column: 1, field, message };
};

it('faults are written in the order of their files and lines, each once', () => {
  const faults = [fault('b', 2, 'two', 'x.y'), fault('a', 1, 'other'), fault('b', 1, 'one'), fault('b', 1, 'one')];
  expect(renderFaults(faults).split('\n')).toEqual(['b:1:1  one', 'b:2:1  x.y: two', 'a:1:1  other']);
});

it('a fault stays on one line, whatever its text holds', () => {
  expect(renderFaults([fault('a', 1, 'got "\u001b[2J\n"')])).toBe('a:1:1  got "\\u001b[2J\\u000a"');
});

it('the error joins the faults of all sources', () => {
  const error = settingsError({ faults: [fault('a', 1, 'one')] }, { faults: [fault('b', 1, 'two')] });
  expect(error).toMatchObject({ code: 'settings_invalid', recovery: 'stop', message: 'a:1:1  one\nb:1:1  two' });
});
