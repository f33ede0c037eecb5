import { assert as assertProperty, property, string } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fillTemplate, templateSchema, variablesIn } from '../../../src/config/profile/basic-fields.ts';

describe('a template', () => {
  it('is filled in with values, in any place', () => {
    expect(fillTemplate("updated_at:>'{since}'", { since: '2026-01-01' }, 'query')).toBe("updated_at:>'2026-01-01'");
    expect(fillTemplate('/posts/{id}/comments', { id: 'a/b?c' }, 'path')).toBe('/posts/a%2Fb%3Fc/comments');
  });

  it('is left out if a variable has no value', () => {
    expect(fillTemplate('{since},{until}', { since: 'a', until: null }, 'query')).toBeNull();
    expect(fillTemplate('{since}', {}, 'query')).toBeNull();
  });

  it('is not read again after it was filled in', () => {
    expect(fillTemplate('{a}{b}', { a: '{b}', b: '$&' }, 'body')).toBe('{b}$&');
  });

  it.for(['.', '..'])('has no segment %s of a path', (id) => {
    expect(() => fillTemplate('/posts/{id}', { id }, 'path')).toThrow(/another path/);
    expect(() => fillTemplate('/posts/{id}{id}', { id: '.' }, 'path')).toThrow(/another path/);
  });

  it.for(['a\r\nb', 'ä', '\0'])('refuses %j in a header', (value) => {
    expect(() => fillTemplate('{value}', { value }, 'header')).toThrow(/cannot stand|control characters/);
  });

  it('keeps any value one segment of a path', () => {
    const segment = string({ unit: 'grapheme' }).filter((id) => !/^\.{0,2}$|\p{Cc}/u.test(id) && id.isWellFormed());
    assertProperty(
      property(segment, (id) => {
        const path = fillTemplate('/v1/posts/{id}/comments', { id }, 'path') ?? '';
        const { pathname, search, hash, host } = new URL(`http://service.test${path}?a=b`);
        const segments = pathname.split('/');
        expect(segments.with(3, decodeURIComponent(segments[3] ?? ''))).toEqual(['', 'v1', 'posts', id, 'comments']);
        expect([search, hash, host]).toEqual(['?a=b', '', 'service.test']);
      }),
    );
  });

  it('may name known variables only', () => {
    expect(variablesIn('{since} { id } {until}')).toEqual(['since', 'until']);
    expect(templateSchema(['since']).safeParse('{sinec}').success).toBe(false);
    expect(templateSchema(['since']).safeParse('{since} { posts { id } }').success).toBe(true);
  });
});
