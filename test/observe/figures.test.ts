import { describe, expect, it } from 'vitest';
import {
  agoText,
  bytesText,
  countOf,
  countText,
  delayText,
  durationText,
  inText,
  momentText,
  percentText,
  rateText,
} from '../../src/observe/figures.ts';

const NOW = Date.UTC(2026, 10, 20, 14, 5, 9);

describe('figures for people', () => {
  it.each([
    [countText(12_300.4), '12,300'],
    [rateText(0.44), '0.4'],
    [rateText(99.94), '99.9'],
    [rateText(1_234), '1,234'],
    [percentText(0.867), '87%'],
    [countOf(1, 'record'), '1 record'],
    [countOf(1_200, 'entry', 'entries'), '1,200 entries'],
  ])('%s', (text, expected) => {
    expect(text).toBe(expected);
  });

  it.each([
    [-1, '0s'],
    [59.6, '1m 00s'],
    [125, '2m 05s'],
    [3_780, '1h 03m'],
    [352_800, '4d 02h'],
  ])('%d seconds', (seconds, expected) => {
    expect(durationText(seconds)).toBe(expected);
  });

  it.each([
    [999, '999 ms'],
    [1_240, '1.2 s'],
    [125_000, '2m 05s'],
  ])('%d milliseconds', (ms, expected) => {
    expect(delayText(ms)).toBe(expected);
  });

  it.each([
    [0, '0 B'],
    [512, '512 B'],
    [4_200, '4.2 kB'],
    [123_456_789, '123 MB'],
    [5e15, '5000 TB'],
  ])('%d bytes', (bytes, expected) => {
    expect(bytesText(bytes)).toBe(expected);
  });

  it('moments, seen from now', () => {
    expect([agoText(NOW - 1_000, NOW), agoText(NOW - 252_000, NOW)]).toEqual(['just now', '4m 12s ago']);
    expect([inText(NOW, NOW), inText(NOW + 252_000, NOW)]).toEqual(['now', 'in 4m 12s']);
    expect([momentText(NOW, NOW), momentText(NOW - 86_400_000, NOW)]).toEqual(['14:05:09', '2026-11-19 14:05:09']);
  });
});
