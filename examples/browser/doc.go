// Package browser holds no code, only tests: they open the status page of
// package discovery in a headless Chromium and look at what a person would
// see. It is a module of its own, so that the driver burdens nobody else.
//
// The browser has to be on the PATH as "chromium"; Debian and its kin install
// it with
//
//	apt-get install -y chromium
//
// With -screenshots a directory gets pictures of the page: light, dark and on a
// phone.
package browser
