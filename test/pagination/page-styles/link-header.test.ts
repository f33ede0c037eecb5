import { describe, expect, it } from 'vitest';
import { parseLinkHeader } from '../../../src/pagination/requests/listing-signals.ts';

function nextIn(header: string | string[] | undefined): string[] | null {
  const links = parseLinkHeader(header);
  return links === null ? null : links.filter((link) => link.rels.includes('next')).map((link) => link.uri);
}

describe('F059 reads a Link header as RFC 8288 says', () => {
  it.each<[string, string | string[] | undefined, string[]]>([
    ['no header at all', undefined, []],
    ['an empty header', '', []],
    ['one link', '</a>; rel="next"', ['/a']],
    ['a relation without quotes', '</a>;rel=next', ['/a']],
    ['several relations in one link', '</a>; rel="last next"', ['/a']],
    ['relations parted by several blanks and tabs', '</a>; rel="last \t  next"', ['/a']],
    ['upper case names and relations', '</a>; REL=NEXT', ['/a']],
    ['a comma inside the target', '</a?q=1,2>; rel=next', ['/a?q=1,2']],
    [
      'commas, semicolons and escaped quotes inside a title',
      '</b>; title="x, \\"y\\"; <z>"; rel="prev", </a>; rel="next"',
      ['/a'],
    ],
    ['two headers', ['</b>; rel="prev"', '</a>; rel="next"'], ['/a']],
    ['white space before the comma', '</b>; rel="prev" , </a>; rel="next"', ['/a']],
    ['a parameter without a value', '</b>; nofollow, </a>; hidden; rel=next', ['/a']],
    ['white space around the equals sign', '</a> ; rel = "next"', ['/a']],
    ['empty list elements', ', </b>; rel=prev,, </a>; rel=next,', ['/a']],
    ['an extended title', "</a>; title*=UTF-8'de'n%c3%a4chste; rel=next", ['/a']],
    ['only the first of two relation parameters', '</a>; rel=prev; rel=next', []],
    ['a relation that only looks alike', '</a>; rel="next-archive"', []],
    ['the word in another parameter', '</a>; title=next; rel=prev', []],
  ])('with %s', (_, header, expected) => {
    expect(nextIn(header)).toEqual(expected);
  });

  it.each([
    ['no target', 'rel="next"'],
    ['an open target', '</a; rel="next"'],
    ['an open quote', '</a>; rel="next'],
    ['words between parameters', '</a>; rel=next junk'],
    ['two links without a comma', '</a>; rel=prev </b>; rel=next'],
  ])('refuses the whole header with %s', (_, header) => {
    expect(parseLinkHeader(header)).toBeNull();
  });
});
