import { percentDecoded, utf8Text } from './text-at.ts';

/**
 * Names and values of a form, one after the other without anything between, as Twilio signs them: sorted by name,
 * values of one name sorted and each only once. Null where the body is no well-formed form.
 */
export function sortedForm(body: Buffer): string | null {
  const text = utf8Text(body);
  if (text === null) return null;
  const values = new Map<string, Set<string>>();
  for (const pair of text.split('&').filter((piece) => piece !== '')) {
    const equals = pair.includes('=') ? pair.indexOf('=') : pair.length;
    const name = formDecoded(pair.slice(0, equals));
    const value = formDecoded(pair.slice(equals + 1));
    if (name === null || value === null) return null;
    values.set(name, (values.get(name) ?? new Set()).add(value));
  }
  const names = [...values.keys()].toSorted();
  return names.flatMap((name) => [...(values.get(name) ?? [])].toSorted().map((value) => name + value)).join('');
}

function formDecoded(text: string): string | null {
  return percentDecoded(text.replaceAll('+', ' '));
}
