import { describe, expect, it } from 'vitest';
import { byteSize, duration } from '../../../src/config/profile/basic-fields.ts';

describe('durations', () => {
  it.each([
    ['500ms', 500],
    ['30s', 30_000],
    ['1.5m', 90_000],
    ['1h', 3_600_000],
    ['2d', 172_800_000],
    ['0s', 0],
  ])('%s is %d milliseconds', (text, ms) => {
    expect(duration.parse(text)).toBe(ms);
  });

  it.each(['', '5', '5 s', '-5s', '1e3s', '5S', '5m30s', '25d', '999999999d', 5])('%j is none', (text) => {
    expect(duration.safeParse(text).success).toBe(false);
  });
});

describe('sizes', () => {
  it.each([
    ['64MiB', 67_108_864],
    ['500kB', 500_000],
    ['1.5KiB', 1_536],
    ['7B', 7],
  ])('%s is %d bytes', (text, bytes) => {
    expect(byteSize.parse(text)).toBe(bytes);
  });

  it.each(['', '64', '64mb', '64 MiB', '-1B'])('%j is none', (text) => {
    expect(byteSize.safeParse(text).success).toBe(false);
  });
});
