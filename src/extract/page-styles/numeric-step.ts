import type { PagePosition } from '../page.ts';
import { sentTexts } from './page-variables.ts';

/** Only what a position sends beside its path counts; a base makes it a URL. */
const ANYWHERE = 'http://localhost';
const BASE64 = /^[\w+/-]{2,}={0,2}$/;
const PRINTABLE = /^[\x20-\x7e]+$/;
const INTEGERS = /\d+/g;

/**
 * True if the next position is this one with a number counted on, by one or by the records of a page: links and
 * cursors, also such as are written in Base64, by which a service numbers its pages all the same. The first of them may
 * add the parameter that a first request goes without.
 */
export function isNumericStep(position: PagePosition, next: PagePosition, received: number): boolean {
  const before = paramsOf(position);
  const changed = [...paramsOf(next)].filter(([name, value]) => before.get(name) !== value);
  const [first, ...others] = changed;
  if (first === undefined || others.length > 0) return false;
  const [name, value] = first;
  return isCountedOn(readable(before.get(name) ?? ''), readable(value), received);
}

function paramsOf(position: PagePosition): Map<string, string> {
  return URL.canParse(position, ANYWHERE) ? sentTexts(new URL(position, ANYWHERE)) : new Map();
}

/** The text that is written in Base64; the value itself if it is no text. */
function readable(value: string): string {
  if (/^\d+$/.test(value) || !BASE64.test(value)) return value;
  const text = Buffer.from(value, 'base64').toString('latin1');
  return PRINTABLE.test(text) ? text : value;
}

/** Two texts that differ in one number alone, by a step of pages; a first request without a number is 0 or 1. */
function isCountedOn(before: string, after: string, received: number): boolean {
  const numbers = after.match(INTEGERS) ?? [];
  if (before === '') {
    const [only, ...others] = numbers;
    return only !== undefined && others.length === 0 && [1, 2, received, received - 1].includes(Number(only));
  }
  const former = before.match(INTEGERS) ?? [];
  if (before.replaceAll(INTEGERS, '#') !== after.replaceAll(INTEGERS, '#')) return false;
  const steps = numbers.map((number, at) => Number(number) - Number(former[at])).filter((step) => step !== 0);
  return steps.length === 1 && (steps[0] === 1 || steps[0] === received);
}
