import type { PageProfile } from '../../source/page-style.ts';
import { cursorStyle } from './cursor-style.ts';
import { linkStyle, nextUrlStyle } from './linked-styles.ts';
import { offsetStyle, pageStyle } from './numbered-styles.ts';
import type { PageStyle } from './page-style.ts';

type Profiles = { [P in PageProfile as P['style']]: P };

const STYLES: { [S in keyof Profiles]: (profile: Profiles[S]) => PageStyle } = {
  cursor: cursorStyle,
  page: pageStyle,
  offset: offsetStyle,
  link: linkStyle,
  'next-url': nextUrlStyle,
};

/** The functions of a profile's page style. */
export function openPageStyle<S extends keyof Profiles>(profile: Profiles[S] & { style: S }): PageStyle {
  return STYLES[profile.style](profile);
}

/** True if the place of the next page is known before this one is read. */
export function isNumbered(profile: PageProfile): boolean {
  return openPageStyle(profile).ahead !== null;
}
