package wire

import (
	"math"
	"net/http"
	"strconv"
	"strings"
)

// httpStatus returns the HTTP status for what the document says, 502 if it
// says nothing that is known. Text meant for people is never read.
func (p *problem) httpStatus() int {
	// A business code that stands where only business codes stand is never
	// taken for an HTTP status: MiniMax's 1008 is no server error.
	if business(p.base) {
		return tableStatus(minimaxStatus, p.base)
	}
	if business(p.number) {
		return tableStatus(baiduStatus, p.number)
	}
	if business(p.header) { // Xunfei
		return http.StatusBadGateway
	}
	numbers := [...]string{p.nested, p.status, p.topState, p.topCode}
	for _, s := range numbers {
		if n := numberStatus(s); n != 0 {
			return n
		}
	}
	for _, s := range [...]string{p.nested, p.topCode} {
		if n, ok := zhipuStatus[s]; ok {
			return n
		}
	}
	if n, ok := baiduStatus[p.topCode]; ok {
		return n
	}
	words := append([]string{p.nested, p.kind, p.status, p.topCode, p.topType, p.topState}, p.extra...)
	for _, s := range words {
		if n := wordStatus(s); n != 0 {
			return n
		}
	}
	return http.StatusBadGateway
}

// numberStatus returns the HTTP status that a number names, 0 if it is none of
// an error. Some gateways write it as a float: 429.0.
func numberStatus(s string) int {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n < 400 || n > 599 || n != math.Trunc(n) {
		return 0
	}
	return int(n)
}

func tableStatus(t map[string]int, code string) int {
	if n, ok := t[code]; ok {
		return n
	}
	return http.StatusBadGateway
}

// minimaxStatus holds MiniMax's base_resp.status_code.
var minimaxStatus = map[string]int{
	"1002": http.StatusTooManyRequests,
	"1039": http.StatusTooManyRequests,
	"1004": http.StatusUnauthorized,
	"1008": http.StatusPaymentRequired,
	"1026": http.StatusBadRequest,
	"2013": http.StatusBadRequest,
}

// zhipuStatus holds Zhipu's codes: concurrency, overload, a plan's limit, no
// balance.
var zhipuStatus = map[string]int{
	"1302": http.StatusTooManyRequests,
	"1305": http.StatusServiceUnavailable,
	"1308": http.StatusTooManyRequests,
	"1113": http.StatusTooManyRequests,
}

// baiduStatus holds Baidu's codes for rate limits.
var baiduStatus = map[string]int{
	"18":     http.StatusTooManyRequests,
	"336501": http.StatusTooManyRequests,
	"336502": http.StatusTooManyRequests,
}

// wordStatus returns the status of an error's code, type or status word, 0 if
// the word is not known. Case and separators do not count: RESOURCE_EXHAUSTED
// and ResourceExhausted are one.
func wordStatus(s string) int {
	if s == "" || len(s) > maxKey {
		return 0
	}
	s = strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
	switch s {
	case "ratelimitexceeded", "ratelimiterror", "ratelimited", "resourceexhausted", "throttling",
		"insufficientquota", "quotaexceeded":
		return http.StatusTooManyRequests
	case "overloadederror", "serverisoverloaded", "slowdown", "unavailable", "serviceunavailableerror":
		return http.StatusServiceUnavailable
	case "timeouterror", "deadlineexceeded", "gatewaytimeout":
		return http.StatusGatewayTimeout
	case "authenticationerror", "invalidapikey", "unauthenticated":
		return http.StatusUnauthorized
	case "permissionerror", "permissiondenied":
		return http.StatusForbidden
	case "notfounderror", "modelnotfound", "notfound":
		return http.StatusNotFound
	case "invalidrequesterror", "invalidargument", "contextlengthexceeded":
		return http.StatusBadRequest
	}
	if strings.HasPrefix(s, "throttling.") { // DashScope: Throttling.RateQuota
		return http.StatusTooManyRequests
	}
	return 0
}

// quota reports whether the document tells of a quota or billing limit, for
// which waiting does not help.
func (p *problem) quota() bool {
	if p.daily {
		return true
	}
	for _, s := range append([]string{p.nested, p.kind, p.status, p.topCode, p.topType}, p.extra...) {
		switch s {
		case "insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
			"project_spend_limit_exceeded", "organization_usage_limit_exceeded",
			"enforced_spend_limit_reached", "quota_exceeded", "billing_hard_limit_reached", "billing_not_active",
			"1308", "1113": // Zhipu: plan limit, no balance
			return true
		}
	}
	return false
}
