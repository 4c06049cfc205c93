// Package referees puts tests that others wrote on the stack: a public fault
// server from npm, here, and the test suites of real clients, in ./suites. The
// README says what came of them.
package referees
